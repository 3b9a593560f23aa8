-- Whether the page has products now, and whether it had any before its last writing: only then does anybody look for them.
ALTER TABLE pages
    ADD COLUMN product_count integer NOT NULL DEFAULT 0,
    ADD COLUMN products_before integer NOT NULL DEFAULT 0;

-- Pages of a domain or a batch are read again in the order of their tasks.
CREATE INDEX pages_by_domain ON pages (domain, task_id);
CREATE INDEX pages_by_batch ON pages (batch, task_id) WHERE batch <> '';

-- One row per product: a task and, where its page lists several, which of them.
CREATE TABLE products (
    product_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    -- Empty for the only product of its page.
    key text NOT NULL,
    -- The attempt that its values are of, and the number of its last version.
    attempt integer NOT NULL,
    version integer NOT NULL DEFAULT 1,
    domain text NOT NULL,
    batch text NOT NULL,
    url text NOT NULL,
    page_url text NOT NULL,
    -- One of several on its page.
    listed boolean NOT NULL,
    name text NOT NULL,
    brand text,
    sku text,
    gtin text,
    mpn text,
    price numeric,
    price_high numeric,
    list_price numeric,
    currency text,
    availability text,
    condition text,
    category text,
    -- The item, whole.
    data jsonb NOT NULL,
    -- Over what a change of makes a version.
    digest bytea NOT NULL,
    parser text NOT NULL,
    parser_version text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    -- When its page was last fetched, and when that last showed something else than before.
    scraped_at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    -- Since when its page does not have it any more.
    gone_at timestamptz,
    search tsvector NOT NULL GENERATED ALWAYS AS (
        to_tsvector('simple', left(name, 2000) || ' ' || coalesce(left(brand, 500), '') || ' '
            || coalesce(left(sku, 200), '') || ' ' || coalesce(left(gtin, 50), '') || ' '
            || coalesce(left(mpn, 200), '') || ' ' || coalesce(left(category, 1000), ''))
    ) STORED,
    CONSTRAINT products_once_per_page UNIQUE (task_id, key),
    CONSTRAINT products_version_positive CHECK (version > 0)
);

-- No index holds `scraped_at`: a page that shows the same again costs its product an update in place.
ALTER TABLE products SET (fillfactor = 90);
ALTER TABLE products ALTER COLUMN search SET STATISTICS 1000;
CREATE INDEX products_search ON products USING gin (search) WITH (fastupdate = off);
CREATE INDEX products_by_domain ON products (domain, product_id);
CREATE INDEX products_by_price ON products (price) WHERE price IS NOT NULL;
CREATE INDEX products_by_change ON products (changed_at);
CREATE INDEX products_by_sku ON products (sku) WHERE sku IS NOT NULL;
CREATE INDEX products_by_gtin ON products (gtin) WHERE gtin IS NOT NULL;
CREATE INDEX products_gone ON products (gone_at) WHERE gone_at IS NOT NULL;

-- What a product was. A repeat and an unchanged page make no row; a page that is parsed again corrects the last one.
CREATE TABLE product_versions (
    product_id bigint NOT NULL,
    version integer NOT NULL,
    attempt integer NOT NULL,
    gone boolean NOT NULL,
    data jsonb NOT NULL,
    parser text NOT NULL,
    parser_version text NOT NULL,
    scraped_at timestamptz NOT NULL,
    PRIMARY KEY (product_id, version)
);

CREATE INDEX product_versions_by_age ON product_versions (scraped_at);
