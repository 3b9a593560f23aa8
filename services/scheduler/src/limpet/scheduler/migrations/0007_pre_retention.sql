-- Months of a table that ended on that day or before go as a whole. It waits for nobody long: whoever asks comes again.
CREATE FUNCTION drop_months(parent text, before date) RETURNS SETOF text LANGUAGE plpgsql SET lock_timeout = '4s' AS $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT child.relname FROM pg_inherits i JOIN pg_class child ON child.oid = i.inhrelid
         WHERE i.inhparent = to_regclass(quote_ident(parent))
           AND child.relname ~ ('^' || parent || '_[0-9]{4}_[0-9]{2}$')
           AND to_date(right(child.relname, 7), 'YYYY_MM') + interval '1 month' <= before
         ORDER BY child.relname
    LOOP
        EXECUTE format('DROP TABLE %I', name);
        RETURN NEXT name;
    END LOOP;
END $$;
