-- What is older than it is to be kept is found without a scan.
CREATE INDEX ix_threads_updated ON threads_meta (updated_at) WHERE is_temporary = 0;
CREATE INDEX ix_runs_ended ON runs (updated_at) WHERE status NOT IN ('pending', 'running');
CREATE INDEX ix_events_traces ON run_events (created_at) WHERE category <> 'message';
