-- Items of the long-term store: what is kept for a user over all threads.
CREATE TABLE store_items (
  user_id    TEXT NOT NULL CHECK (length(user_id) <= 64),
  -- Its labels with dots between them.
  namespace  TEXT NOT NULL CHECK (length(namespace) <= 255),
  key        TEXT NOT NULL CHECK (length(key) <= 255),
  value_json TEXT NOT NULL,
  bytes      INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  -- NULL: it stays.
  expires_at TEXT,
  PRIMARY KEY (user_id, namespace, key)
);
CREATE INDEX ix_store_items_newest ON store_items (user_id, updated_at, namespace, key);
CREATE INDEX ix_store_items_expiring ON store_items (user_id, expires_at) WHERE expires_at IS NOT NULL;

-- What each user has of them, so that nobody has to count.
CREATE TABLE store_totals (
  user_id TEXT PRIMARY KEY,
  items   INTEGER NOT NULL,
  bytes   INTEGER NOT NULL
);
