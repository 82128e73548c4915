-- What administrators read of feedback is its newest.
CREATE INDEX ix_feedback_created ON feedback (created_at);
