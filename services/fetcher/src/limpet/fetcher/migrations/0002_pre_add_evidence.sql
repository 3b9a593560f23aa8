-- What spoke against a page that was not taken for one. Nothing for good pages, and for answers whose status says it all.
ALTER TABLE http_responses
    ADD COLUMN vendor text NOT NULL DEFAULT '',
    ADD COLUMN score integer NOT NULL DEFAULT 0,
    ADD COLUMN signals text[] NOT NULL DEFAULT '{}';
