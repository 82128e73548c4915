-- breaking: an older program looks for webhooks, turns of crons and times to live where they are no longer.
-- What is to be done later, by one process of many, whatever crashes: one table instead of three.
CREATE TABLE jobs (
  kind       varchar(16) COLLATE "C" NOT NULL,
  key        varchar(64) COLLATE "C" NOT NULL,
  user_id    varchar(64) COLLATE "C",
  thread_id  varchar(64) COLLATE "C",
  -- NULL: it is dead.
  due_at     timestamptz,
  attempts   integer NOT NULL DEFAULT 0,
  last_error text,
  -- The process that is at it.
  owner      text COLLATE "C",
  payload    text NOT NULL,
  -- When the due time was set: what a clock that was ahead has set is set again.
  set_at     timestamptz NOT NULL,
  PRIMARY KEY (kind, key)
);
CREATE INDEX ix_jobs_due ON jobs (due_at);
CREATE INDEX ix_jobs_thread ON jobs (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX ix_jobs_owner ON jobs (owner) WHERE owner IS NOT NULL;
CREATE INDEX ix_jobs_set ON jobs (set_at);

-- Those of runs in flight come with the end of the run.
INSERT INTO jobs (kind, key, user_id, thread_id, due_at, attempts, payload, set_at)
  SELECT 'webhook', webhooks.run_id, coalesce(webhooks.user_id, runs.user_id), runs.thread_id, next_at, webhooks.attempts,
    json_build_object('url', url, 'body', payload)::text, now()
  FROM webhooks LEFT JOIN runs ON runs.run_id = webhooks.run_id
  WHERE payload IS NOT NULL OR status NOT IN ('pending', 'running');
DROP TABLE webhooks;

INSERT INTO jobs (kind, key, user_id, thread_id, due_at, payload, set_at)
  SELECT 'turn', cron_id, user_id, thread_id, next_run_date, '{}', now()
  FROM crons WHERE enabled = 1 AND next_run_date IS NOT NULL;
DROP INDEX ix_crons_due;
ALTER TABLE crons DROP COLUMN next_run_date;
ALTER TABLE crons DROP COLUMN claimed_until;

ALTER TABLE threads_meta ADD COLUMN is_temporary integer NOT NULL DEFAULT 0;
UPDATE threads_meta SET is_temporary = 1 WHERE thread_id IN (
  SELECT thread_id FROM runs WHERE kwargs_json LIKE '%"temporary":true%' AND (kwargs_json::json -> 'temporary')::text = 'true');
INSERT INTO jobs (kind, key, user_id, thread_id, due_at, payload, set_at)
  SELECT 'removal', threads_meta.thread_id, user_id, threads_meta.thread_id, coalesce(expires_at, now()),
    json_build_object('minutes', minutes)::text, now()
  FROM threads_meta LEFT JOIN thread_ttls ON thread_ttls.thread_id = threads_meta.thread_id AND made_at = created_at
  WHERE expires_at IS NOT NULL OR is_temporary = 1;
DROP TABLE thread_ttls;

-- Lists have none that were made for one run.
DROP INDEX ix_threads_user_updated;
DROP INDEX ix_threads_user_created;
DROP INDEX ix_threads_user_id;
DROP INDEX ix_threads_user_status;
CREATE INDEX ix_threads_user_updated ON threads_meta (user_id, updated_at, thread_id) WHERE is_temporary = 0;
CREATE INDEX ix_threads_user_created ON threads_meta (user_id, created_at, thread_id) WHERE is_temporary = 0;
CREATE INDEX ix_threads_user_id ON threads_meta (user_id, thread_id) WHERE is_temporary = 0;
CREATE INDEX ix_threads_user_status ON threads_meta (user_id, status, updated_at, thread_id) WHERE is_temporary = 0;
