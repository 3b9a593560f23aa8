-- Stored pages that are to be read again, and how far that is. A row is all there is of a job: any parser goes on with it.
CREATE TABLE reparse_jobs (
    job_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state text NOT NULL DEFAULT 'running',
    idempotency_key text UNIQUE,
    -- Which pages; null means any.
    task_id bigint,
    domain text,
    batch text,
    scraped_from timestamptz,
    scraped_to timestamptz,
    -- By which parser; empty means each page's own.
    parser text NOT NULL,
    dry_run boolean NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    finished_at timestamptz,
    -- Pages up to this task, of which all up to `done_to` are done.
    last_task_id bigint NOT NULL,
    done_to bigint NOT NULL DEFAULT 0,
    total integer NOT NULL,
    read_count integer NOT NULL DEFAULT 0,
    written_count integer NOT NULL DEFAULT 0,
    changed_count integer NOT NULL DEFAULT 0,
    same_count integer NOT NULL DEFAULT 0,
    gone_count integer NOT NULL DEFAULT 0,
    failed_count integer NOT NULL DEFAULT 0,
    outdated_count integer NOT NULL DEFAULT 0,
    differences jsonb NOT NULL DEFAULT '{}',
    -- Who has a piece of it in hand, and until when nobody else takes it.
    holder text NOT NULL DEFAULT '',
    held_until timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT reparse_jobs_state_known CHECK (state IN ('running', 'completed', 'cancelled')),
    CONSTRAINT reparse_jobs_finished_when_not_running CHECK ((state = 'running') = (finished_at IS NULL))
);

CREATE INDEX reparse_jobs_running ON reparse_jobs (held_until) WHERE state = 'running';
