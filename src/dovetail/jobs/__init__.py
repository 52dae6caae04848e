"""Jobs: a bundle run, timed and scored at a place, kept with what was predicted; can be listed and gone on with."""

from dovetail.jobs.page import job_page, jobs_page
from dovetail.jobs.perform import JobScorer, JobWork, perform_job
from dovetail.jobs.record import Beside, JobFigures, JobRecord, JobRequest, JobScore, UnitCounts, job_document
from dovetail.jobs.schema import JOB_SCHEMA, schema_text
from dovetail.jobs.store import JobFolder, JobState, JobStore, default_jobs_folder

__all__ = [
    "JOB_SCHEMA",
    "Beside",
    "JobFigures",
    "JobFolder",
    "JobRecord",
    "JobRequest",
    "JobScore",
    "JobScorer",
    "JobState",
    "JobStore",
    "JobWork",
    "UnitCounts",
    "default_jobs_folder",
    "job_document",
    "job_page",
    "jobs_page",
    "perform_job",
    "schema_text",
]
