ALTER TABLE http_responses
    -- What was found against the page was not acted upon: its domain is in shadow mode.
    ADD COLUMN shadow boolean NOT NULL DEFAULT false,
    DROP CONSTRAINT http_responses_verdict_known,
    -- All rows that are there have fewer verdicts to choose from: they need not be read for it.
    ADD CONSTRAINT http_responses_verdict_known CHECK (
        verdict IN ('fetched', 'unchanged', 'blocked', 'garbage', 'needs_render', 'redirected', 'failed')
    ) NOT VALID;
