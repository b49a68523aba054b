"""How far a job group is, from Spark's status tracker. Counts are approximate: the tracker follows the scheduler's events."""

from __future__ import annotations

from pyspark import SparkContext

from sparksql.wire.control import Progress


def read_progress(context: SparkContext, group: str) -> Progress:
    """Counts the tasks and stages of all jobs that the group has started so far."""
    tracker = context.statusTracker()
    running_stages: set[int] = set()
    stage_ids: set[int] = set()
    for job_id in tracker.getJobIdsForGroup(group):
        job = tracker.getJobInfo(job_id)
        if job is not None:
            stage_ids.update(job.stageIds)
            if job.status == "RUNNING":
                running_stages.update(job.stageIds)
    tasks_done = tasks_total = stages_done = stages_total = 0
    for stage_id in stage_ids:
        stage = tracker.getStageInfo(stage_id)
        if stage is None:
            continue
        if stage_id not in running_stages and stage.numCompletedTasks == 0:
            continue  # skipped: an earlier job of the statement had computed it
        tasks_done += stage.numCompletedTasks
        tasks_total += stage.numTasks
        stages_total += 1
        stages_done += stage.numTasks > 0 and stage.numCompletedTasks == stage.numTasks
    return Progress(tasks_done=tasks_done, tasks_total=tasks_total, stages_done=stages_done, stages_total=stages_total)


def has_running_job(context: SparkContext, group: str) -> bool:
    """Returns whether a job of this group still runs."""
    tracker = context.statusTracker()
    jobs = (tracker.getJobInfo(job_id) for job_id in tracker.getJobIdsForGroup(group))
    return any(job is not None and job.status == "RUNNING" for job in jobs)
