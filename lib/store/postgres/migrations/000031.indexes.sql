CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_feedback_created ON feedback (created_at);
