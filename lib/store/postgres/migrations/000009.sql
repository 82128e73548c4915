-- Items of the long-term store: what is kept for a user over all threads.
CREATE TABLE store_items (
  user_id    varchar(64) COLLATE "C" NOT NULL,
  -- Its labels with dots between them.
  namespace  text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  value_json text NOT NULL,
  bytes      bigint NOT NULL,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  -- NULL: it stays.
  expires_at timestamptz,
  PRIMARY KEY (user_id, namespace, key)
);
CREATE INDEX ix_store_items_newest ON store_items (user_id, updated_at, namespace, key);
CREATE INDEX ix_store_items_expiring ON store_items (user_id, expires_at) WHERE expires_at IS NOT NULL;

-- What each user has of them, so that nobody has to count.
CREATE TABLE store_totals (
  user_id varchar(64) COLLATE "C" PRIMARY KEY,
  items   bigint NOT NULL,
  bytes   bigint NOT NULL
);
