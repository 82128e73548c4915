-- breaking: an older program would leave the words of what it deletes.
-- The words of texts that threads show, one row a text: of an event by its seq, of the title with seq 0.
CREATE TABLE search_texts (
  id        INTEGER PRIMARY KEY,
  thread_id TEXT NOT NULL,
  seq       INTEGER NOT NULL,
  run_id    TEXT,
  at        TEXT NOT NULL,
  words     TEXT NOT NULL
);
CREATE UNIQUE INDEX ix_search_texts ON search_texts (thread_id, seq);
-- Which rows have a word. Words are cut before they come here: the tokenizer parts them at spaces.
CREATE VIRTUAL TABLE search_words USING fts5(
  words, content='search_texts', content_rowid='id', detail=none, columnsize=0, tokenize='ascii'
);
INSERT INTO search_words (search_words, rank) VALUES ('secure-delete', 1);
CREATE TRIGGER search_texts_added AFTER INSERT ON search_texts BEGIN
  INSERT INTO search_words (rowid, words) VALUES (new.id, new.words);
END;
CREATE TRIGGER search_texts_removed AFTER DELETE ON search_texts BEGIN
  INSERT INTO search_words (search_words, rowid, words) VALUES ('delete', old.id, old.words);
END;
-- Threads whose texts have changed since, all that are here at first.
CREATE TABLE search_queue (
  thread_id TEXT PRIMARY KEY,
  version   INTEGER NOT NULL
);
INSERT INTO search_queue (thread_id, version) SELECT thread_id, 1 FROM threads_meta WHERE is_temporary = 0;
