"""All Dags of example_dags/ on one Airflow, triggered together: what they need, and their runs.

Some need a nudge on the way, which comes from here, too: a kill, a record that is mended.
"""

from __future__ import annotations

import ast
import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from harness.airflow_client import Run
from harness.airflow_server import REPOSITORY
from harness.batch_service import QUEUE
from harness.processes import wait_until

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient
    from harness.batch_service import BatchService
    from harness.bigquery_service import BigQueryService
    from harness.databricks_service import DatabricksService
    from harness.fault_proxy import FaultProxy
    from harness.spark_stage import SparkStage

EXAMPLES = REPOSITORY / "example_dags"
#: Where BigQuery finds no job without its location.
DATASET = "tokyo_lake"
REGIONS = ("emea", "apac", "amer")
#: A record that JSON cannot be; in the middle of a file, so that a batch has gone before.
BROKEN = '{"id": 150, "at": '


def dag_files() -> list[Path]:
    """Every example; each file's first Dag is named as the file is."""
    return sorted(EXAMPLES.glob("*.py"))


def parameters(dag_id: str) -> set[str]:
    """The names of the run's parameters that an example asks for."""
    for node in ast.walk(ast.parse((EXAMPLES / f"{dag_id}.py").read_text())):
        if isinstance(node, ast.keyword) and node.arg == "params" and isinstance(node.value, ast.Dict):
            return set(ast.literal_eval(node.value))
    return set()


@dataclass
class ExampleRuns:
    """The stage of the examples; the runs are by Dag id."""

    client: AirflowClient
    batch: BatchService
    proxy: FaultProxy
    bigquery: BigQueryService
    databricks: DatabricksService
    spark: SparkStage
    folder: Path
    runs: dict[str, Run] = field(default_factory=dict)

    def start(self) -> None:
        """Make what the Dags need, and trigger all of them."""
        for path in dag_files():
            self.client.put_dag(path.stem, path)
        # An execution of these is a run of a real state machine: it waits, then passes a result on.
        httpx.post(
            f"{self.batch.url}/moto-api/config", json={"stepfunctions": {"execute_state_machine": True}}
        ).raise_for_status()
        self.bigquery.create_table(f"{DATASET}.visits")
        self.spark.connect_all(self.client)
        self._write_files()
        for path in dag_files():
            self.client.wait_parsed(path.stem)
        lost = self.proxy.rule(
            "hold_response", method="POST", body="stateMachine:own_operator_recover", times=1
        )
        for path in dag_files():
            self.runs[path.stem] = self.client.trigger(path.stem, self._conf(path.stem))
        self._disturb(lost)
        self._end_spark()

    def _conf(self, dag_id: str) -> dict[str, Any]:
        warehouse = self.databricks.sql_task(dag_id)["sql_task"]
        conf: dict[str, Any] = {
            "image": "spark",
            "queue": QUEUE,
            "definition": dag_id,
            "dataset": DATASET,
            "warehouse_id": warehouse["warehouse_id"],
            "query_id": warehouse["query"]["query_id"],
            # Long enough for a run that a person started to go on when the task starts its own.
            "job_name": f"{dag_id} seconds={20 if dag_id.endswith('now_poke') else 2}",
            "folder": str(self.folder / dag_id),
            "source": str(self.folder / dag_id / "orders.jsonl"),
            "target": str(self.folder / dag_id),
        }
        wanted = parameters(dag_id)
        if "definition" in wanted:
            # Jobs of several examples have the same name; their definitions tell them apart.
            self.batch.define_job(dag_id, environment=[{"name": "STANDIN_SECONDS", "value": "3"}])
        if "job_name" in wanted:
            job = self.databricks.create_job(conf["job_name"])
            if dag_id.endswith("now_poke"):
                self.databricks.run_now(job)
        if dag_id.startswith("spark_"):
            # Only the standalone cluster runs something; "local:" is for files that are where the driver is.
            jar = self.spark.standalone()[0].application(dag_id).jar
            conf["application"] = jar if dag_id == "spark_poke" else f"local://{jar}"
        if "state_machine_arn" in wanted:
            conf["state_machine_arn"] = self.make_state_machine(dag_id)
        return {name: value for name, value in conf.items() if name in wanted}

    def make_state_machine(self, name: str, seconds: int = 45) -> str:
        """Return the ARN of a state machine that waits, then passes on a result with its input."""
        states = {
            "Wait": {"Type": "Wait", "Seconds": seconds, "Next": "Done"},
            "Done": {"Type": "Pass", "Parameters": {"rows": 3, "input.$": "$"}, "End": True},
        }
        client = self.batch.client("stepfunctions")
        made = client.create_state_machine(
            name=name,
            definition=json.dumps({"StartAt": "Wait", "States": states}),
            roleArn="arn:aws:iam::123456789012:role/standin",
        )
        return str(made["stateMachineArn"])

    def executions(self, name: str) -> list[dict[str, Any]]:
        """All executions of a state machine."""
        client = self.batch.client("stepfunctions")
        (arn,) = [
            machine["stateMachineArn"]
            for machine in client.list_state_machines()["stateMachines"]
            if machine["name"] == name
        ]
        found: list[dict[str, Any]] = client.list_executions(stateMachineArn=arn)["executions"]
        return found

    def _write_files(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        orders = [json.dumps({"id": n, "at": f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"}) for n in range(250)]
        broken = [*orders[:150], BROKEN, *orders[151:]]
        for dag_id, name, lines in (
            ("state_checkpoint", "orders.jsonl", broken),
            ("asset_watermark", "orders.jsonl", orders),
            *(("state_mapped_tasks", f"{region}.jsonl", orders) for region in REGIONS[1:]),
            ("state_mapped_tasks", f"{REGIONS[0]}.jsonl", broken),
            *(("asset_key_per_index", f"{n}.log", orders[: 10 * (n + 1)]) for n in range(3)),
        ):
            (self.folder / dag_id).mkdir(parents=True, exist_ok=True)
            (self.folder / dag_id / name).write_text("\n".join(lines))

    def mend(self, file: Path) -> None:
        """Replace the broken record."""
        file.write_text(
            file.read_text().replace(BROKEN, json.dumps({"id": 150, "at": "2026-01-01T00:02:30Z"}))
        )

    def _disturb(self, lost: Any) -> None:
        """A broken record for two tasks, a kill in mid-wait, and one before the answer arrives."""
        for dag_id, name, map_index in (
            ("state_checkpoint", "orders.jsonl", -1),
            ("state_mapped_tasks", f"{REGIONS[0]}.jsonl", 0),
        ):
            task = self.runs[dag_id].task("load", map_index)
            task.wait_try(1, ("up_for_retry", "running", "queued", "scheduled"))
            task.wait_log("JSONDecodeError")
            self.mend(self.folder / dag_id / name)
        waiting = self.runs["own_operator"].task("report")
        wait_until(lambda: waiting.store().get("execution_arn"), "the execution's ARN is stored")
        waiting.task_process(1).kill()
        with lost:
            lost.wait_held()
            self.runs["own_operator_recover"].task("report").task_process(1).kill()

    def _end_spark(self) -> None:
        """End what runs on the two clusters that are told when."""
        yarn, kubernetes = self.spark.yarn()[0], self.spark.kubernetes()[0]
        (app,) = yarn.wait_running(f"report {self.runs['spark_deferrable'].run_id}")
        yarn.finish(app.id)
        (pod,) = kubernetes.wait_running(f"train-{self.runs['spark_reschedule'].run_id}")
        kubernetes.finish(pod.id)

    def save(self, file: Path) -> None:
        """Let other test processes join."""
        file.write_text(json.dumps({dag_id: run.run_id for dag_id, run in self.runs.items()}))

    def join(self, file: Path) -> None:
        """Join the runs that another test process has started."""
        for dag_id, run_id in json.loads(file.read_text()).items():
            self.runs[dag_id] = Run(self.client, dag_id, run_id)
