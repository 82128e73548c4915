-- breaking: an older program writes threads without their terms, and searches would not find them.
-- Threads have a number, by which the terms of their metadata name them: a search by a value reads the entries of that value and not
-- every thread of its user. updated_at is not among the terms, or every run would move them.

CREATE TABLE threads_meta_5 (
  -- Explicit, because VACUUM may change what is not; never given twice, so that terms that somebody left behind find no other thread.
  key           INTEGER PRIMARY KEY AUTOINCREMENT,
  thread_id     TEXT NOT NULL UNIQUE CHECK (length(thread_id) <= 64),
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
);
INSERT INTO threads_meta_5
    (thread_id, assistant_id, user_id, display_name, status, metadata_json, created_at, updated_at, next_seq, next_ordinal)
  SELECT thread_id, assistant_id, user_id, display_name, status, metadata_json, created_at, updated_at, next_seq, next_ordinal
  FROM threads_meta ORDER BY rowid;
DROP TABLE threads_meta;
ALTER TABLE threads_meta_5 RENAME TO threads_meta;
CREATE INDEX ix_threads_user_updated ON threads_meta (user_id, updated_at, thread_id);
CREATE INDEX ix_threads_assistant ON threads_meta (assistant_id);

CREATE TABLE thread_terms (
  -- A user's id; the number 0, which is no text, for what nobody owns. Of no type, so that neither becomes the other.
  owner      NOT NULL,
  term       TEXT NOT NULL,
  thread_key INTEGER NOT NULL,
  PRIMARY KEY (owner, term, thread_key)
) WITHOUT ROWID;
INSERT INTO thread_terms
  SELECT coalesce(user_id, 0), term.value, threads_meta.key FROM threads_meta, json_each(terms_of(metadata_json)) AS term
  ORDER BY 1, 2, 3;

-- Threads change hands by hand alone: whoever writes that need not know of the terms.
CREATE TRIGGER tr_thread_terms_owner AFTER UPDATE OF user_id ON threads_meta BEGIN
  UPDATE thread_terms SET owner = coalesce(NEW.user_id, 0)
  WHERE owner = coalesce(OLD.user_id, 0) AND thread_key = NEW.key;
END;
