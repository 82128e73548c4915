-- breaking: the statements of an older program name indexes that are gone.
-- Every list is a range of an index, in the order in which it is asked for.

CREATE INDEX ix_threads_user_created ON threads_meta (user_id, created_at, thread_id);
CREATE INDEX ix_threads_user_id ON threads_meta (user_id, thread_id);
CREATE INDEX ix_threads_user_status ON threads_meta (user_id, status, updated_at, thread_id);

-- Events of a run by seq, with which k grows: pages far behind begin where they are. Of messages, which are few among the events, the
-- thread's and the run's.
CREATE INDEX ix_events_run ON run_events (run_id, seq);
CREATE INDEX ix_events_thread_messages ON run_events (thread_id, seq) WHERE category = 'message';
CREATE INDEX ix_events_run_messages ON run_events (run_id, seq) WHERE category = 'message';
DROP INDEX ix_events_run_k;
DROP INDEX ix_events_thread_cat_seq;
