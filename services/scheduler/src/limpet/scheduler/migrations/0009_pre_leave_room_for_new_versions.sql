-- Tasks that were added together are granted and settled together: every row of a page needs room for its next version there
-- at once, or the change writes every index. Holds for pages that are filled from now on.
ALTER TABLE crawl_tasks SET (fillfactor = 50);
