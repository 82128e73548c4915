-- breaking: an older program would take a link to a thread for an API token.
-- Links to threads are kept among the tokens: the only thread that one opens.
ALTER TABLE api_tokens ADD COLUMN thread_id varchar(64) COLLATE "C";
CREATE INDEX ix_api_tokens_thread ON api_tokens (thread_id) WHERE thread_id IS NOT NULL;
