"""``make demo``: a worker is killed in mid-job on real Airflow, and the job is neither lost nor doubled."""
