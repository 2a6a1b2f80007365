"""
Spark: a driver on a cluster outlives the worker that submitted it, and is found again by a tag or label.

A standalone master gives nothing back that was sent along with a driver, so that there, and there
only, a submission whose answer was lost stays lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import LostJobError, ResumableJobMixin, SubmissionUnclearError
from airflow_provider_durable.resumable.compat import log_event
from airflow_provider_durable.resumable.hooks import JobHooks
from airflow_provider_durable.resumable.parameters import NOT_GIVEN, parameters_behind, refuse_poll_interval

with requires_extra("spark"):
    from airflow.providers.apache.spark.operators.spark_submit import (
        SparkSubmitOperator as ApacheSparkSubmitOperator,
    )

    from airflow_provider_durable.services.spark import (
        KUBERNETES_MISSING,
        NOT_FOUND,
        RELAUNCHING,
        STANDALONE,
        is_active,
        is_succeeded,
        manager_of_job,
        open_cluster,
    )

if TYPE_CHECKING:
    from pydantic import JsonValue
    from requests.auth import AuthBase

    from airflow_provider_durable.resumable.compat import Context
    from airflow_provider_durable.services.spark_cluster import SparkCluster
    from airflow_provider_durable.services.spark_connection import SparkConnection

T = TypeVar("T")

#: Seconds between two status requests, unless the author says otherwise; the lower limits that Apache's
#: operator documents for YARN and Kubernetes.
_POLL_SECONDS = {"YARN": 10.0, "Kubernetes": 20.0}


class SparkSubmitOperator(ResumableJobMixin, ApacheSparkSubmitOperator):
    """
    Submit a Spark application in cluster mode: one driver, whatever dies while it runs.

    A drop-in for ``airflow.providers.apache.spark.operators.spark_submit.SparkSubmitOperator``: its
    parameters and template fields, and the parameters of
    :class:`~airflow_provider_durable.ResumableJobMixin`. ``spark-submit`` returns once the cluster has
    accepted the driver; from then on the cluster is asked, and no process of Spark's is on the worker.

    ============  =====================================  ==========================================
    cluster       external id                            a lost submission is found by
    ============  =====================================  ==========================================
    standalone    driver id                              nothing: see ``on_lost_submission``
    YARN          application id                         its tag, at the ResourceManager
    Kubernetes    ``<namespace>:<driver pod>``           a label of the driver pod
    ============  =====================================  ==========================================

    In client mode, and with a ``local`` master, the driver is the worker's child and dies with it: the
    operator then does what Apache's does, and says so.

    ``status_poll_interval`` (seconds) holds in every way of waiting; left out, it is 1 for a standalone
    cluster, 10 for YARN and 20 for Kubernetes.

    :param application: the application, a jar or a Python file (templated)
    :param yarn_rm_auth: how to sign requests to the ResourceManager, a ``requests.auth.AuthBase``; by
        default Kerberos where the connection has keytab and principal. It cannot travel to a triggerer
    :param track_driver_via_k8s_api: True also deletes the driver pod after it has succeeded, as Apache's
        operator does
    :param post_submit_commands: run when the job has ended, once in the try that sees it (templated)
    """

    external_id_key = "spark_job_id"
    resume_method = "execute_complete"
    poll_interval_parameter = "status_poll_interval"

    if TYPE_CHECKING:
        # From Apache's operator, some of it from newer versions only.
        task_id: str
        conf: dict[str, Any] | None
        application: str
        application_args: list[Any] | None
        env_vars: dict[str, Any] | None
        _conn_id: str
        _deploy_mode: str | None
        _get_hook: Any
        _status_poll_interval: int

    def __init__(
        self,
        *,
        application: str = "",
        status_poll_interval: float = NOT_GIVEN,
        yarn_rm_auth: AuthBase | None = None,
        track_driver_via_k8s_api: bool = False,
        yarn_track_via_rm_api: bool = False,
        **kwargs: Any,
    ) -> None:
        where = f"{type(self).__name__}(task_id={kwargs.get('task_id')!r})"
        refuse_poll_interval(type(self), kwargs, where)
        own: dict[str, Any] = {
            "status_poll_interval": status_poll_interval,
            "yarn_rm_auth": yarn_rm_auth,
            "track_driver_via_k8s_api": track_driver_via_k8s_api,
            "yarn_track_via_rm_api": yarn_track_via_rm_api,
        }
        # Apache's operator takes some of them only in newer versions.
        behind = parameters_behind(type(self), JobHooks)
        passed_on = {name: own[name] for name in own if name in behind and own[name] is not NOT_GIVEN}
        super().__init__(application=application, **passed_on, **kwargs)
        self._poll_seconds = None if status_poll_interval is NOT_GIVEN else status_poll_interval
        self._yarn_rm_auth = yarn_rm_auth
        self._leaves_submit = track_driver_via_k8s_api or yarn_track_via_rm_api
        self._deletes_pod = track_driver_via_k8s_api
        self._hook: Any = None
        self._connection: SparkConnection | None = None
        self._cluster: SparkCluster | None = None
        self._reported: str | None = None
        self._check(where)

    def _check(self, where: str) -> None:
        """Check what can be known when the Dag is parsed."""
        if not self.application:
            raise ValueError(f"{where}: application is missing. Name the jar or the Python file to run.")
        if self._poll_seconds is not None and self._poll_seconds <= 0:
            raise ValueError(
                f"{where}: status_poll_interval={self._poll_seconds!r} must be more than 0 seconds."
            )
        asked = self.deferrable and self.deferrable_given
        if asked and self._deploy_mode == "client":
            raise ValueError(
                f"{where}: deploy_mode='client' runs the driver in the worker, which deferrable=True would "
                "leave. Write deploy_mode='cluster', or leave deferrable out."
            )
        if self._yarn_rm_auth is not None and asked:
            raise ValueError(
                f"{where}: yarn_rm_auth is an object, which cannot travel to the triggerer that "
                "deferrable=True waits in. Write mode='reschedule', which frees the worker without one."
            )
        if self._yarn_rm_auth is not None:
            self.deferrable = False  # it came from Airflow's configuration

    @property
    def status_poll_interval(self) -> float:
        """Seconds between two status requests."""
        if self._poll_seconds is not None:
            return self._poll_seconds
        manager = self._connection.manager if self._connection else None
        return _POLL_SECONDS.get(manager or "", self._status_poll_interval)

    def execute(self, context: Context) -> Any:
        """
        Find the driver of an earlier try or submit one, and wait for it.

        :return: nothing, as Apache's operator; the external id with ``wait_for_termination=False``
        :raises JobFailedError: the driver failed; what the cluster says of it is in the message
        :raises ValueError: a master URL, or a Spark property, that cannot be meant
        """
        connection = self._connect()
        if not connection.outlives_worker:
            if self.durable:
                log_event(
                    self.log,
                    "info",
                    "durable has no effect: in client mode and with a local master the driver is the "
                    "worker's child, and there is nothing left to reconnect to. Use deploy_mode='cluster'",
                    master=connection.master,
                    deploy_mode=connection.deploy_mode,
                )
            return ApacheSparkSubmitOperator.execute(self, context)
        if self._is_for_apache(connection):
            return ApacheSparkSubmitOperator.execute(self, context)
        self._cluster = open_cluster(connection, self._yarn_rm_auth)
        return self.execute_resumable(context)

    def _is_for_apache(self, connection: SparkConnection) -> bool:
        """Whether nothing is asked for but what ``spark-submit`` does beside the job, until its end."""
        return (
            connection.manager != STANDALONE
            and not (self.durable or self.deferrable or self._leaves_submit)
            and self.should_wait() is not False
        )

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        external_id: JsonValue = None,
        submitted_at: str | None = None,
    ) -> Any:
        """Take up the wait after a deferral. Of a pod that has gone since, the event knows the end."""
        self._cluster = open_cluster(self._connect(), self._yarn_rm_auth)
        ends = {"success": "SUCCEEDED", "failed": "FAILED"}
        self._reported = ends.get(str((event or {}).get("status")))
        return super().execute_complete(context, event, external_id, submitted_at)

    def _connect(self) -> SparkConnection:
        """Read the connection, and have what is secret in the submission masked from now on."""
        from airflow_provider_durable.services import spark_connection, spark_submit

        spark_submit.hide_secrets(self.conf or {}, self.application_args or [], self.env_vars or {})
        try:
            self._hook = self._hook or self._get_hook()
        except NameError as error:  # from Apache's hook, where there is no Kubernetes client
            raise ImportError(KUBERNETES_MISSING) from error
        self._connection = spark_connection.SparkConnection.of(self._hook, self._conn_id, self.conf)
        return self._connection

    def _cluster_of(self, external_id: JsonValue) -> SparkCluster:
        """
        Return the cluster that ran the job.

        :raises ValueError: the connection names another kind of cluster now
        """
        connection, cluster = self._connection, self._cluster
        if connection is None or cluster is None:
            connection = self._connect()
            self._cluster = cluster = open_cluster(connection, self._yarn_rm_auth)
        manager = manager_of_job(str(external_id))
        if manager != connection.manager:
            raise ValueError(
                f"Job {external_id} was submitted to {manager}; connection {self._conn_id!r} names "
                f"{connection.manager} ({connection.master}) now. Point it back until the job has ended, or "
                f"delete the key {self.external_id_key!r} of this task's state store to submit anew."
            )
        return cluster

    # -- submit --------------------------------------------------------------------------------

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """Check the rendered properties."""
        if not str(self.application).strip():
            raise ValueError(f"application was rendered to {self.application!r}; it must name a file.")
        if self._cluster is not None:
            self._cluster.check(self.conf or {})
        return {}

    def submit_job(self, context: Context) -> str:
        """
        Run ``spark-submit`` until the cluster has accepted the driver.

        :return: driver id, application id, or ``<namespace>:<pod>``
        :raises SubmissionRejectedError: there is no ``spark-submit``
        :raises SparkSubmitFailedError: it failed; whether it started a driver before is to be found out
        :raises SubmissionUnclearError: it succeeded, and the cluster shows no driver of it
        """
        from airflow_provider_durable.services import spark_submit

        cluster, connection = self._cluster, self._connection
        if cluster is None or connection is None:
            raise RuntimeError("submit_job was called outside of execute")
        conf = self._with_openlineage(dict(self.conf or {}), context)
        original, self.conf = self.conf, {**conf, **cluster.properties(conf, self.submission_token)}
        try:
            self._hook = hook = self._get_hook()
        finally:
            self.conf = original
        # Private, and the same in all versions of Apache's hook, unlike what its submit() waits for.
        command = [str(part) for part in hook._build_spark_submit_command(self.application)]
        driver_id = spark_submit.run(
            command,
            environment=hook._env,
            log=self.log.info,
            stopped=lambda: self.is_job_to_be_cancelled,
        )
        if connection.manager == STANDALONE:
            if driver_id is None:
                raise SubmissionUnclearError(
                    "spark-submit succeeded, but its output names no driver. It does so on the log level "
                    "INFO: logger.deploy.name=org.apache.spark.deploy, logger.deploy.level=info in "
                    "log4j2.properties."
                )
            return driver_id
        external_id = cluster.find(self.submission_token)
        if external_id is None:
            raise SubmissionUnclearError(
                f"spark-submit succeeded, but the cluster shows no {cluster.noun} of it."
            )
        log_event(self.log, "info", "The cluster accepted the job", external_id=external_id)
        return external_id

    def _with_openlineage(self, conf: dict[str, Any], context: Context) -> dict[str, Any]:
        """Add what Apache's operator adds for OpenLineage, where that is switched on."""
        parent = getattr(self, "_openlineage_inject_parent_job_info", False)
        transport = getattr(self, "_openlineage_inject_transport_info", False)
        if parent or transport:
            from airflow.providers.common.compat.openlineage.utils import spark as openlineage

            if parent:
                conf = openlineage.inject_parent_job_information_into_spark_properties(conf, context)
            if transport:
                conf = openlineage.inject_transport_information_into_spark_properties(conf, context)
        return conf

    def recover_job(self, token: str, context: Context) -> JsonValue:
        """
        Ask the cluster for the driver with the token.

        :raises RecoveryUnavailableError: a standalone master cannot tell
        """
        return self._cluster.find(token) if self._cluster is not None else None

    # -- ask -----------------------------------------------------------------------------------

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """
        Return the job's status in the cluster's words; ``NOT_FOUND`` if it has forgotten the job.

        Clusters forget: pods are collected, masters restart. An end that was seen is remembered.

        :raises LostJobError: the master runs the driver again under an id of its own choice
        """
        status = self._cluster_of(external_id).status(str(external_id))
        if status == NOT_FOUND:
            return self._remembered(context) or NOT_FOUND
        if status == RELAUNCHING and self.is_job_current:
            raise LostJobError(
                f"Spark driver {external_id} was supervised and lost its worker: the master runs it "
                "again, under another id, which it does not tell. Look for it on the master's page, and stop "
                "it or let it end; then clear this task to submit again. With Airflow's retries, "
                "spark.driver.supervise=true is not needed."
            )
        if not is_active(status) and self.submission_details.get("outcome") != status:
            self.remember(outcome=status)
        return status

    def _remembered(self, context: Context) -> str | None:
        """Return how a job ended that the cluster has forgotten, if anybody has seen it."""
        outcome = self.submission_details.get("outcome") or self._reported
        if outcome is None and not self.submission_token and (store := context.get("task_state_store")):
            outcome = store.get("k8s_driver_status")  # noted by Apache's operator, of a job of its own
        return None if outcome is None else str(outcome)

    def is_job_active(self, status: str) -> bool:
        """Return whether the job has not ended."""
        return is_active(status)

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job has succeeded."""
        return is_succeeded(status)

    def get_job_result(self, external_id: JsonValue, context: Context) -> None:
        """Return nothing, as Apache's operator; tidy up after a job that has succeeded."""
        self._run_post_submit_commands()
        if self._deletes_pod:
            self._attempt(
                "Deleting the driver pod failed",
                lambda: self._cluster_of(external_id).cancel(str(external_id)),
            )

    def describe_failure(self, external_id: JsonValue, status: str, context: Context) -> str:
        """Return the error message: the status, and what the cluster says of it."""
        self._run_post_submit_commands()
        cluster = self._cluster_of(external_id)
        if status == NOT_FOUND:
            return (
                f"{cluster.noun} {external_id} is not known to the cluster (any more). It runs no longer; "
                "how it ended, nobody can tell."
            )
        why = self._attempt("The reason is not available", lambda: cluster.explain(str(external_id)))
        return f"{cluster.noun} {external_id} ended as {status}" + (f": {why}" if why else "")

    # -- wait ----------------------------------------------------------------------------------

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """Return the trigger that waits together with all others of this connection."""
        from airflow_provider_durable.triggers.spark import SparkJobTrigger

        return SparkJobTrigger(
            external_id=str(external_id),
            conn_id=self._conn_id,
            kerberos=bool(self._connection and self._connection.kerberos),
            **self.trigger_options,
        )

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:
        """Kill the driver or application, or delete the driver pod."""
        self._cluster_of(external_id).cancel(str(external_id))
        self._run_post_submit_commands()

    def _run_post_submit_commands(self) -> None:
        """Have Apache's hook run them, which does it once for each submission or reconnection."""
        if run := getattr(self._hook, "_run_post_submit_commands", None):
            run()

    def _attempt(self, event: str, action: Callable[[], T]) -> T | None:
        """Do what matters less than the job's outcome."""
        try:
            return action()
        except Exception as error:  # noqa: BLE001 - so says the docstring
            log_event(self.log, "warning", event, cause=f"{type(error).__name__}: {error}")
            return None
