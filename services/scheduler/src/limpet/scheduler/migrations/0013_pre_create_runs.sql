-- A run collects the URLs of a site from its start pages, and makes tasks of all of them at once, or of none.
CREATE TABLE run_schedules (
    schedule_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text NOT NULL UNIQUE,
    domain_id   bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    cron        text NOT NULL,
    zone        text NOT NULL,
    is_active   boolean NOT NULL DEFAULT true,
    -- The run that is started, as it would be asked for.
    wish        jsonb NOT NULL,
    next_run_at timestamptz NOT NULL,
    last_run_at timestamptz,
    last_run_id uuid,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX run_schedules_due ON run_schedules (next_run_at) WHERE is_active;

CREATE TABLE runs (
    run_id               uuid PRIMARY KEY,
    run_no               bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    domain_id            bigint NOT NULL REFERENCES domains ON DELETE CASCADE,
    state                text NOT NULL DEFAULT 'collecting',
    on_failed_start_page text NOT NULL,
    quorum               double precision NOT NULL,
    allow_empty          boolean NOT NULL,
    -- The shrink gate: at least this share of the URLs of the site's last good run. NULL is no such gate.
    least_share          double precision,
    -- Which links are wanted; NULL takes those that look like items.
    item_pattern         text,
    -- For the pages that are found, and for the list pages; NULL is the domain's own.
    parser_name          text,
    list_parser_name     text,
    priority             smallint NOT NULL,
    max_retries          smallint NOT NULL,
    max_list_pages       integer NOT NULL,
    recrawl              boolean NOT NULL,
    webhook_url          text,
    schedule_id          bigint REFERENCES run_schedules ON DELETE SET NULL,
    created_by           text NOT NULL,
    created_at           timestamptz NOT NULL DEFAULT now(),
    ended_at             timestamptz,
    -- Why it was aborted: the gate, and a sentence.
    gate                 text,
    reason               text,
    -- Different URLs when it ended, the tasks that were made of them, and the batch that these are in.
    urls                 bigint,
    new_tasks            bigint,
    batch_id             bigint REFERENCES batches,
    -- Other services have heard of its end; nothing of it is left to do.
    announced_at         timestamptz,
    cleared_at           timestamptz,
    CONSTRAINT known_run_state CHECK (state IN ('collecting', 'committed', 'aborted')),
    CONSTRAINT ended_or_collecting CHECK ((state = 'collecting') = (ended_at IS NULL)),
    CONSTRAINT aborted_for_a_reason CHECK ((state = 'aborted') = (reason IS NOT NULL)),
    CONSTRAINT known_policy CHECK (on_failed_start_page IN ('abort', 'skip', 'quorum')),
    CONSTRAINT quorum_is_a_share CHECK (quorum > 0 AND quorum <= 1),
    CONSTRAINT least_share_is_a_share CHECK (least_share > 0 AND least_share <= 1)
);
-- One live run per site.
CREATE UNIQUE INDEX runs_live ON runs (domain_id) WHERE ended_at IS NULL;
CREATE INDEX runs_of_domain ON runs (domain_id, run_no);
CREATE INDEX runs_unannounced ON runs (run_no) WHERE ended_at IS NOT NULL AND announced_at IS NULL;
CREATE INDEX runs_uncleared ON runs (run_no) WHERE ended_at IS NOT NULL AND cleared_at IS NULL;

CREATE TABLE run_start_pages (
    run_id        uuid NOT NULL REFERENCES runs ON DELETE CASCADE,
    start_no      integer NOT NULL,
    url           text NOT NULL,
    state         text NOT NULL DEFAULT 'pending',
    completed     boolean GENERATED ALWAYS AS (state = 'completed') STORED,
    -- Different URLs that its list pages held.
    collected     bigint NOT NULL DEFAULT 0,
    -- List pages asked for, and those of them that nobody has heard of yet.
    pages         integer NOT NULL DEFAULT 0,
    open_pages    integer NOT NULL DEFAULT 0,
    failure_count integer NOT NULL DEFAULT 0,
    -- The last failures, the oldest first: time, proxy, error.
    failures      jsonb NOT NULL DEFAULT '[]',
    -- How its list goes on: what the rules of pagination know of it.
    paging        jsonb NOT NULL,
    -- Why it ended as it did.
    reason        text,
    started_at    timestamptz,
    ended_at      timestamptz,
    PRIMARY KEY (run_id, start_no),
    CONSTRAINT known_start_page_state CHECK (state IN ('pending', 'paginating', 'completed', 'failed')),
    CONSTRAINT open_pages_not_negative CHECK (open_pages >= 0)
) WITH (fillfactor = 50);
CREATE INDEX run_start_pages_open ON run_start_pages (run_id) WHERE state IN ('pending', 'paginating');
CREATE INDEX run_start_pages_failed ON run_start_pages (run_id) WHERE state = 'failed';

-- The list pages of runs. Each is a task of a kind of its own.
CREATE TABLE run_pages (
    task_id  bigint PRIMARY KEY REFERENCES crawl_tasks ON DELETE CASCADE,
    run_id   uuid NOT NULL,
    start_no integer NOT NULL
);
CREATE INDEX run_pages_of_run ON run_pages (run_id, task_id);

-- What the list pages held. Rows are only added, and deleted when their run is over. The order is the one of the commit.
CREATE TABLE run_urls (
    run_id   uuid NOT NULL,
    url_hash bytea NOT NULL,
    start_no integer NOT NULL,
    url      text NOT NULL,
    PRIMARY KEY (run_id, url_hash, start_no)
);

ALTER TABLE crawl_tasks
    DROP CONSTRAINT known_kind,
    ADD CONSTRAINT known_kind CHECK (kind IN ('page', 'robots', 'list')) NOT VALID;
ALTER TABLE crawl_tasks VALIDATE CONSTRAINT known_kind;
CREATE INDEX crawl_tasks_of_lists ON crawl_tasks (task_id) WHERE kind = 'list';
