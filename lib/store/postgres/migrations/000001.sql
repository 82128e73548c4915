-- The whole schema of the first version. Names and lengths of columns follow the service's contract; what it leaves open is
-- explained where it stands. JSON is text, and texts are escaped as lib/store/postgres/text.ts says: neither jsonb nor a bare
-- text can hold U+0000. Ids compare by their bytes (COLLATE "C"), whatever the locale of the database: pages depend on it.

CREATE TABLE users (
  id             varchar(36) COLLATE "C" PRIMARY KEY,
  email          varchar(320) COLLATE "C" NOT NULL UNIQUE,
  password_hash  varchar(128),
  system_role    varchar(16) NOT NULL DEFAULT 'user',
  created_at     timestamptz NOT NULL,
  oauth_provider varchar(32) COLLATE "C",
  oauth_id       varchar(128) COLLATE "C",
  needs_setup    boolean NOT NULL DEFAULT false,
  token_version  integer NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX idx_users_oauth_identity ON users (oauth_provider, oauth_id)
  WHERE oauth_provider IS NOT NULL AND oauth_id IS NOT NULL;
CREATE INDEX ix_users_admin ON users (created_at) WHERE system_role = 'admin';

-- Sessions that were logged out before they ended by themselves, until they do. Only the digest is kept, here and below: who
-- reads the database can use no credential.
CREATE TABLE denied_sessions (
  digest  varchar(64) COLLATE "C" PRIMARY KEY,
  -- Unix time in seconds.
  expires bigint NOT NULL
);
CREATE INDEX ix_denied_sessions_expires ON denied_sessions (expires);

CREATE TABLE api_tokens (
  token_id     varchar(36) COLLATE "C" PRIMARY KEY,
  user_id      varchar(64) COLLATE "C" NOT NULL,
  name         varchar(100) NOT NULL,
  digest       varchar(64) COLLATE "C" NOT NULL UNIQUE,
  scopes_json  text NOT NULL DEFAULT '[]',
  created_at   timestamptz NOT NULL,
  -- NULL: it ends when it is revoked.
  expires_at   timestamptz,
  last_used_at timestamptz
);
CREATE INDEX ix_api_tokens_user ON api_tokens (user_id, created_at);

CREATE TABLE threads_meta (
  thread_id      varchar(64) COLLATE "C" PRIMARY KEY,
  assistant_id   varchar(128),
  user_id        varchar(64) COLLATE "C",
  display_name   varchar(256),
  status         varchar(20) COLLATE "C" NOT NULL DEFAULT 'idle',
  metadata_json  text NOT NULL DEFAULT '{}',
  -- A digest of every top-level entry of the metadata, so that a search by any of them is one look into an index.
  metadata_terms text[] COLLATE "C" NOT NULL DEFAULT '{}',
  created_at     timestamptz NOT NULL,
  updated_at     timestamptz NOT NULL,
  -- seq of the next event. A counter, because max + 1 would give a number again after a delete.
  next_seq       bigint NOT NULL DEFAULT 1,
  next_ordinal   integer NOT NULL DEFAULT 1
-- Room in the pages: the counter moves with every batch, and a new version of the row that fits beside the old touches no index.
) WITH (fillfactor = 80);
CREATE INDEX ix_threads_user_updated ON threads_meta (user_id, updated_at, thread_id);
CREATE INDEX ix_threads_metadata ON threads_meta USING gin (metadata_terms);

CREATE TABLE runs (
  -- Never given twice: frames of a removed run must not show up under a later one.
  key                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_id               varchar(64) COLLATE "C" NOT NULL UNIQUE,
  thread_id            varchar(64) COLLATE "C" NOT NULL,
  user_id              varchar(64) COLLATE "C",
  assistant_id         varchar(128),
  status               varchar(20) COLLATE "C" NOT NULL DEFAULT 'pending',
  ordinal              integer NOT NULL,
  model_name           varchar(128),
  multitask_strategy   varchar(20) NOT NULL DEFAULT 'reject',
  metadata_json        text NOT NULL DEFAULT '{}',
  kwargs_json          text NOT NULL DEFAULT '{}',
  error                text,
  stop_reason          text,
  follow_up_to_run_id  varchar(64) COLLATE "C",
  first_human_message  text,
  last_ai_message      text,
  total_input_tokens   bigint NOT NULL DEFAULT 0,
  total_output_tokens  bigint NOT NULL DEFAULT 0,
  total_tokens         bigint NOT NULL DEFAULT 0,
  llm_call_count       integer NOT NULL DEFAULT 0,
  lead_agent_tokens    bigint NOT NULL DEFAULT 0,
  subagent_tokens      bigint NOT NULL DEFAULT 0,
  middleware_tokens    bigint NOT NULL DEFAULT 0,
  message_count        integer NOT NULL DEFAULT 0,
  last_cursor          text,
  final_checkpoint_id  text,
  idempotency_key      varchar(255) COLLATE "C",
  idempotency_hash     text,
  -- For more than one process: the writer that it belongs to while it is in flight. Without a row there, it is to be taken over.
  owner                varchar(64) COLLATE "C",
  created_at           timestamptz NOT NULL,
  updated_at           timestamptz NOT NULL,
  UNIQUE (thread_id, ordinal)
);
CREATE INDEX ix_runs_thread_status ON runs (thread_id, status);
CREATE INDEX ix_runs_unfinished ON runs (key) WHERE status IN ('pending', 'running');
CREATE UNIQUE INDEX uq_runs_thread_running ON runs (thread_id) WHERE status = 'running';
CREATE UNIQUE INDEX uq_runs_idempotency ON runs ((coalesce(user_id, '')), idempotency_key) WHERE idempotency_key IS NOT NULL;

CREATE TABLE run_events (
  thread_id      varchar(64) COLLATE "C" NOT NULL,
  run_id         varchar(64) COLLATE "C" NOT NULL,
  user_id        varchar(64) COLLATE "C",
  event_type     varchar(32) NOT NULL,
  category       varchar(16) NOT NULL,
  -- Objects as JSON text; event_metadata.content_is_dict tells them from texts that only look so.
  content        text NOT NULL DEFAULT '',
  event_metadata text NOT NULL DEFAULT '{}',
  seq            bigint NOT NULL,
  -- Position within the run: the same record handed over twice is stored once. It grows with seq, so the last is the greatest.
  k              integer NOT NULL,
  -- Of message records: who said what, for the history view, without parsing contents.
  message_id     text COLLATE "C",
  created_at     timestamptz NOT NULL,
  CONSTRAINT uq_events_thread_seq PRIMARY KEY (thread_id, seq)
);
CREATE INDEX ix_events_run ON run_events (run_id, seq);
CREATE INDEX ix_events_messages ON run_events (thread_id, seq) WHERE category = 'message';
-- The first characters only: an id may come from a client, and a very long one has no room in an index.
CREATE INDEX ix_events_message_id ON run_events (thread_id, left(message_id, 64)) WHERE message_id IS NOT NULL;

-- Frames as they went out, in the order in which they were committed, whatever their run. The index finds them by n, never by row.
CREATE TABLE frames (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  run_key bigint NOT NULL,
  first_n integer NOT NULL,
  last_n  integer NOT NULL,
  epoch   bigint NOT NULL,
  -- 1: SSE bytes in data, five bytes a frame in idx. 2: both in data, compressed; made when the run has ended.
  format  smallint NOT NULL DEFAULT 1,
  -- Length of the frames before compression: a page is measured without looking into data.
  bytes   integer NOT NULL,
  idx     bytea NOT NULL,
  data    bytea NOT NULL
);
CREATE UNIQUE INDEX uq_frames_run_n ON frames (run_key, last_n);
-- What is kept is compressed by ourselves, better, when the run has ended.
ALTER TABLE frames ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE checkpoints (
  thread_id            varchar(64) COLLATE "C" NOT NULL,
  -- Sorts by time as a text.
  checkpoint_id        varchar(64) COLLATE "C" NOT NULL,
  parent_checkpoint_id varchar(64) COLLATE "C",
  run_id               varchar(64) COLLATE "C",
  metadata_json        text NOT NULL,
  next_json            text NOT NULL DEFAULT '[]',
  -- Body numbers: [[from, to], ...] in the order of the conversation.
  messages_json        text NOT NULL,
  -- {channel: body number}
  channels_json        text NOT NULL,
  created_at           timestamptz NOT NULL,
  PRIMARY KEY (thread_id, checkpoint_id)
);

-- One version of one message or one channel, as JSON text.
CREATE TABLE checkpoint_bodies (
  thread_id varchar(64) COLLATE "C" NOT NULL,
  no        integer NOT NULL,
  json      text NOT NULL,
  PRIMARY KEY (thread_id, no)
);

CREATE TABLE feedback (
  feedback_id varchar(64) COLLATE "C" PRIMARY KEY,
  run_id      varchar(64) COLLATE "C" NOT NULL,
  thread_id   varchar(64) COLLATE "C" NOT NULL,
  user_id     varchar(64) COLLATE "C",
  message_id  text,
  rating      smallint NOT NULL CHECK (rating IN (1, -1)),
  comment     text,
  created_at  timestamptz NOT NULL
);
CREATE UNIQUE INDEX uq_feedback_thread_run_user ON feedback (thread_id, run_id, user_id);

-- One row for every open store: its lease, and the number of the last batch that it committed. As long as the row is there its runs
-- are its own, and every batch holds it locked until the commit; whoever takes its runs over deletes it first. And who loses the
-- connection in mid-commit asks here whether the batch was written: the transaction in question has the lock, so the answer is final.
CREATE TABLE writers (
  writer_id   varchar(64) COLLATE "C" PRIMARY KEY,
  batch       bigint NOT NULL DEFAULT 0,
  -- On the clock of the database.
  lease_until timestamptz NOT NULL
) WITH (fillfactor = 50);
