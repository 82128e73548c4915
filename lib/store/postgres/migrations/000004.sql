-- Every list is a range of an index, in the order in which it is asked for.
CREATE INDEX ix_threads_user_created ON threads_meta (user_id, created_at, thread_id);
CREATE INDEX ix_threads_user_id ON threads_meta (user_id, thread_id);
CREATE INDEX ix_threads_user_status ON threads_meta (user_id, status, updated_at, thread_id);
-- Of messages, which are few among the events of a run.
CREATE INDEX ix_events_run_messages ON run_events (run_id, seq) WHERE category = 'message';
