-- One row per task: the attempt whose items are the result.
CREATE TABLE pages (
    task_id bigint PRIMARY KEY,
    attempt integer NOT NULL,
    domain text NOT NULL,
    batch text NOT NULL,
    url text NOT NULL,
    parser text NOT NULL,
    parser_version text NOT NULL,
    page_type text NOT NULL,
    title text NOT NULL,
    item_count integer NOT NULL,
    link_count integer NOT NULL,
    -- With these the page can be parsed again without being fetched again.
    body_key text NOT NULL,
    content_type text NOT NULL,
    charset text NOT NULL,
    scraped_at timestamptz NOT NULL,
    parsed_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT pages_item_count_not_negative CHECK (item_count >= 0)
);

-- One set of rows per task, whatever the number of attempts, deliveries and parsers.
CREATE TABLE items (
    item_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id bigint NOT NULL,
    position integer NOT NULL,
    attempt integer NOT NULL,
    domain text NOT NULL,
    batch text NOT NULL,
    data jsonb NOT NULL,
    CONSTRAINT items_once_per_task UNIQUE (task_id, position)
);

CREATE INDEX items_by_domain ON items (domain, item_id);
CREATE INDEX items_by_batch ON items (batch, item_id) WHERE batch <> '';
