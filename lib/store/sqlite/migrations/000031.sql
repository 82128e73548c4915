-- breaking: an older program would write into tables that are gone.
-- Words are kept in blocks, those of one user on shelves, and no longer in FTS5's index; all texts are put there anew.
DROP TABLE search_words;
DROP TABLE search_texts;
DROP TABLE search_removals;
-- Some texts of a thread, packed (store/sql/word-blocks.ts), and which words may be there.
CREATE TABLE search_blocks (
  id        INTEGER PRIMARY KEY,
  thread_id TEXT NOT NULL,
  last      INTEGER NOT NULL,
  has_title INTEGER NOT NULL,
  size      INTEGER NOT NULL,
  shelf     INTEGER NOT NULL,
  filter    BLOB NOT NULL,
  words     BLOB NOT NULL
);
CREATE INDEX ix_search_blocks ON search_blocks (thread_id);
CREATE INDEX ix_search_blocks_shelf ON search_blocks (shelf);
-- Some blocks of a user, '' of nobody; `at`: no text of theirs is newer. `filter`: which words may be there, null: any.
CREATE TABLE search_shelves (
  id      INTEGER PRIMARY KEY,
  user_id TEXT NOT NULL,
  blocks  INTEGER NOT NULL,
  state   INTEGER NOT NULL,
  at      TEXT NOT NULL,
  filter  BLOB
);
CREATE INDEX ix_search_shelves ON search_shelves (user_id);
CREATE INDEX ix_search_shelves_state ON search_shelves (state, user_id);
-- A filter would go on saying yes to words of a thread that is gone. A block that is only packed anew leaves it as it is.
CREATE TRIGGER search_blocks_removed AFTER DELETE ON search_blocks BEGIN
  UPDATE search_shelves SET blocks = blocks - 1,
    filter = iif(EXISTS (SELECT 1 FROM threads_meta WHERE thread_id = old.thread_id), filter, NULL),
    state = iif(state = 0 AND (blocks <= 32 OR NOT EXISTS (SELECT 1 FROM threads_meta WHERE thread_id = old.thread_id)), 2, state)
  WHERE id = old.shelf;
  DELETE FROM search_shelves WHERE id = old.shelf AND blocks = 0;
END;
INSERT INTO search_queue (thread_id, version) SELECT thread_id, 1 FROM threads_meta WHERE is_temporary = 0
  ON CONFLICT (thread_id) DO UPDATE SET version = version + 1;
