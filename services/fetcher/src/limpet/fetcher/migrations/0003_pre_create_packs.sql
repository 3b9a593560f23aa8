-- Objects of the page store, so that one can go when nobody needs any page in it.
CREATE TABLE packs (
    pack text PRIMARY KEY,
    -- When an answer last referred to a body in it; kept to the day, so that a recrawl seldom writes here.
    last_used_at timestamptz NOT NULL DEFAULT now(),
    -- No new answer finds its bodies from then on; it goes a little later, unless somebody had found one before.
    condemned_at timestamptz
);

CREATE INDEX packs_by_use ON packs (last_used_at);
CREATE INDEX packs_condemned ON packs (condemned_at) WHERE condemned_at IS NOT NULL;
CREATE INDEX bodies_by_pack ON bodies (split_part(body_key, '#', 1));

INSERT INTO packs (pack, last_used_at)
SELECT split_part(body_key, '#', 1), max(fetched_at) FROM http_responses WHERE body_key <> '' GROUP BY 1;
