-- How a domain wants to be asked, and how its pages are judged.
ALTER TABLE domains
    ADD COLUMN http2              boolean NOT NULL DEFAULT false,
    -- Names and values, one JSON object.
    ADD COLUMN headers            text NOT NULL DEFAULT '{}',
    ADD COLUMN validation         text NOT NULL DEFAULT 'enforce',
    ADD COLUMN ignored_signatures text[] NOT NULL DEFAULT '{}',
    ADD CONSTRAINT known_validation CHECK (validation IN ('enforce', 'shadow'));

-- A crawl that the calendar began of a page that was parsed: its site is asked whether the page has changed. What it
-- said of the page stands in page_fact.
ALTER TABLE crawl_tasks ADD COLUMN asks_if_changed boolean NOT NULL DEFAULT false;
