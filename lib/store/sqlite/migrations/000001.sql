-- The whole schema of the first version. Names and lengths of columns follow the service's contract; what it leaves open is
-- explained where it stands. Times are ISO texts in UTC, JSON is text.

CREATE TABLE users (
  id             TEXT PRIMARY KEY CHECK (length(id) <= 36),
  email          TEXT NOT NULL UNIQUE CHECK (length(email) <= 320),
  password_hash  TEXT CHECK (length(password_hash) <= 128),
  system_role    TEXT NOT NULL DEFAULT 'user',
  created_at     TEXT NOT NULL,
  oauth_provider TEXT,
  oauth_id       TEXT,
  needs_setup    INTEGER NOT NULL DEFAULT 0,
  token_version  INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX idx_users_oauth_identity ON users (oauth_provider, oauth_id)
  WHERE oauth_provider IS NOT NULL AND oauth_id IS NOT NULL;
CREATE INDEX ix_users_admin ON users (created_at) WHERE system_role = 'admin';

CREATE TABLE threads_meta (
  thread_id     TEXT PRIMARY KEY CHECK (length(thread_id) <= 64),
  assistant_id  TEXT CHECK (length(assistant_id) <= 128),
  user_id       TEXT CHECK (length(user_id) <= 64),
  display_name  TEXT CHECK (length(display_name) <= 256),
  status        TEXT NOT NULL DEFAULT 'idle',
  metadata_json TEXT NOT NULL DEFAULT '{}',
  created_at    TEXT NOT NULL,
  updated_at    TEXT NOT NULL,
  -- seq of the next event. A counter, because max + 1 would give a number again after a delete.
  next_seq      INTEGER NOT NULL DEFAULT 1,
  next_ordinal  INTEGER NOT NULL DEFAULT 1
) WITHOUT ROWID;
CREATE INDEX ix_threads_user_updated ON threads_meta (user_id, updated_at, thread_id);
CREATE INDEX ix_threads_assistant ON threads_meta (assistant_id);

CREATE TABLE runs (
  -- Never given twice (AUTOINCREMENT): frames of a removed run must not show up under a later one.
  key                  INTEGER PRIMARY KEY AUTOINCREMENT,
  run_id               TEXT NOT NULL UNIQUE CHECK (length(run_id) <= 64),
  thread_id            TEXT NOT NULL,
  user_id              TEXT,
  assistant_id         TEXT,
  status               TEXT NOT NULL DEFAULT 'pending',
  ordinal              INTEGER NOT NULL,
  model_name           TEXT,
  multitask_strategy   TEXT NOT NULL DEFAULT 'reject',
  metadata_json        TEXT NOT NULL DEFAULT '{}',
  kwargs_json          TEXT NOT NULL DEFAULT '{}',
  error                TEXT,
  stop_reason          TEXT,
  follow_up_to_run_id  TEXT,
  first_human_message  TEXT,
  last_ai_message      TEXT,
  total_input_tokens   INTEGER NOT NULL DEFAULT 0,
  total_output_tokens  INTEGER NOT NULL DEFAULT 0,
  total_tokens         INTEGER NOT NULL DEFAULT 0,
  llm_call_count       INTEGER NOT NULL DEFAULT 0,
  lead_agent_tokens    INTEGER NOT NULL DEFAULT 0,
  subagent_tokens      INTEGER NOT NULL DEFAULT 0,
  middleware_tokens    INTEGER NOT NULL DEFAULT 0,
  message_count        INTEGER NOT NULL DEFAULT 0,
  last_cursor          TEXT,
  final_checkpoint_id  TEXT,
  idempotency_key      TEXT CHECK (length(idempotency_key) <= 255),
  idempotency_hash     TEXT,
  -- For more than one process: who runs it, until when, and the number that a late writer no longer has.
  owner                TEXT,
  lease_expires_at     TEXT,
  fence                INTEGER NOT NULL DEFAULT 0,
  created_at           TEXT NOT NULL,
  updated_at           TEXT NOT NULL,
  UNIQUE (thread_id, ordinal)
);
CREATE INDEX ix_runs_thread_status ON runs (thread_id, status);
CREATE INDEX ix_runs_unfinished ON runs (key) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX uq_runs_thread_running ON runs (thread_id) WHERE status = 'running';
CREATE UNIQUE INDEX uq_runs_idempotency ON runs (coalesce(user_id, ''), idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE run_events (
  id             INTEGER PRIMARY KEY,
  thread_id      TEXT NOT NULL,
  run_id         TEXT NOT NULL,
  user_id        TEXT,
  event_type     TEXT NOT NULL CHECK (length(event_type) <= 32),
  category       TEXT NOT NULL CHECK (length(category) <= 16),
  -- Objects as JSON text; event_metadata.content_is_dict tells them from texts that only look so.
  content        TEXT NOT NULL DEFAULT '',
  event_metadata TEXT NOT NULL DEFAULT '{}',
  seq            INTEGER NOT NULL,
  -- Position within the run: the same record handed over twice is stored once.
  k              INTEGER NOT NULL,
  -- Of message records: who said what, for the history view, without parsing contents.
  message_id     TEXT,
  created_at     TEXT NOT NULL
);
CREATE UNIQUE INDEX uq_events_thread_seq ON run_events (thread_id, seq);
CREATE INDEX ix_events_thread_cat_seq ON run_events (thread_id, category, seq);
CREATE UNIQUE INDEX ix_events_run_k ON run_events (run_id, k);
CREATE INDEX ix_events_message ON run_events (thread_id, message_id) WHERE message_id IS NOT NULL;

-- Frames as they went out, in the order in which they were committed, whatever their run: a table clustered by run would
-- write a page a run and commit. The index finds them by n, never by row.
CREATE TABLE frames (
  id      INTEGER PRIMARY KEY,
  run_key INTEGER NOT NULL,
  first_n INTEGER NOT NULL,
  last_n  INTEGER NOT NULL,
  epoch   INTEGER NOT NULL,
  -- 1: SSE bytes in data, five bytes a frame in idx. 2: both in data, compressed; made when the run has ended.
  format  INTEGER NOT NULL DEFAULT 1,
  idx     BLOB NOT NULL,
  data    BLOB NOT NULL
);
CREATE UNIQUE INDEX uq_frames_run_n ON frames (run_key, last_n);

CREATE TABLE checkpoints (
  thread_id            TEXT NOT NULL,
  -- Sorts by time as a text.
  checkpoint_id        TEXT NOT NULL,
  parent_checkpoint_id TEXT,
  run_id               TEXT,
  metadata_json        TEXT NOT NULL,
  next_json            TEXT NOT NULL DEFAULT '[]',
  -- Body numbers: [[from, to], ...] in the order of the conversation.
  messages_json        TEXT NOT NULL,
  -- {channel: body number}
  channels_json        TEXT NOT NULL,
  created_at           TEXT NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_id)
) WITHOUT ROWID;

-- One version of one message or one channel, as JSON text.
CREATE TABLE checkpoint_bodies (
  thread_id TEXT NOT NULL,
  no        INTEGER NOT NULL,
  json      TEXT NOT NULL,
  PRIMARY KEY (thread_id, no)
) WITHOUT ROWID;

CREATE TABLE feedback (
  feedback_id TEXT PRIMARY KEY CHECK (length(feedback_id) <= 64),
  run_id      TEXT NOT NULL,
  thread_id   TEXT NOT NULL,
  user_id     TEXT,
  message_id  TEXT,
  rating      INTEGER NOT NULL CHECK (rating IN (1, -1)),
  comment     TEXT,
  created_at  TEXT NOT NULL
);
CREATE UNIQUE INDEX uq_feedback_thread_run_user ON feedback (thread_id, run_id, user_id);
