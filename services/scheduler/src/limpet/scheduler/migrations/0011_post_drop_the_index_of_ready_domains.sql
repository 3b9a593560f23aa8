-- With it go the last columns that change with every order and are part of an index.
DROP INDEX domains_servable;
