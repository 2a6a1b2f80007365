"""Spark itself, from PyPI's pyspark: its jars, the JDK it needs, and a ``spark-submit`` for the PATH.

``SparkInstallation.make(folder)`` is what SparkService, YarnService and KubernetesService start from.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.processes import LOOPBACK, ServiceFailed
from harness.venvs import python_of

JAVA_SOURCES = Path(__file__).with_name("java")

#: A JVM that starts quickly and stays small, for processes that live for seconds and do little.
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k"


def jdk_tool(name: str) -> str:
    """The path of ``java``, ``javac`` or ``jar``, from JAVA_HOME or the PATH.

    :raises ServiceFailed: if there is none, with what to install
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(name, path=f"{home}/bin") if home else shutil.which(name)
    if not found:
        place = f"JAVA_HOME ({home})" if home else "the PATH"
        raise ServiceFailed(f"no {name} in {place}; on Debian: apt-get install default-jdk-headless")
    return found


@dataclass(frozen=True)
class SparkInstallation:
    """Where Spark is, and the environment that its commands run in."""

    home: Path
    folder: Path

    @classmethod
    def make(cls, folder: Path) -> SparkInstallation:
        """Install pyspark, if nobody has, and write ``bin/spark-submit`` into the folder."""
        jdk_tool("java")
        python = Path(python_of("spark"))
        (home,) = python.parents[1].glob("lib/python3*/site-packages/pyspark")
        installation = cls(home, folder.resolve())
        installation.bin.mkdir(parents=True, exist_ok=True)
        settings = "".join(f"export {name}='{value}'\n" for name, value in installation.settings().items())
        script = f'#!/bin/sh\n{settings}exec "$SPARK_HOME/bin/spark-submit" "$@"\n'
        installation._write(installation.bin / "spark-submit", script)
        return installation

    @property
    def bin(self) -> Path:
        """The folder to put first on a PATH, for ``spark-submit``."""
        return self.folder / "bin"

    @property
    def jars(self) -> str:
        """Java's class path of all that Spark ships: also ZooKeeper and Hadoop's client."""
        return f"{self.home}/jars/*"

    def settings(self) -> dict[str, str]:
        """Spark's own environment variables."""
        return {
            "SPARK_HOME": str(self.home),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK_JVM,
            "SPARK_LAUNCHER_OPTS": QUICK_JVM,
            "SPARK_SUBMIT_OPTS": QUICK_JVM,
        }

    def env(self) -> dict[str, str]:
        """The whole environment for one of Spark's commands."""
        return {**os.environ, **self.settings()}

    def path_env(self) -> dict[str, str]:
        """``PATH`` with our ``spark-submit`` first: for Airflow's processes."""
        return {"PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}"}

    def command(self, main_class: str, *arguments: str) -> list[str]:
        """The command that runs one of Spark's daemons."""
        return [str(self.home / "bin" / "spark-class"), main_class, *arguments]

    def java(self, main_class: str, *arguments: str, extra_class_path: str = "") -> list[str]:
        """The command that runs a class of Spark's jars, or of ``extra_class_path``."""
        class_path = os.pathsep.join(filter(None, [extra_class_path, self.jars]))
        return [jdk_tool("java"), *QUICK_JVM.split(), "-Xmx256m", "-cp", class_path, main_class, *arguments]

    def compile(self, source: str) -> Path:
        """Compile one file of java/ against Spark's jars; returns the folder of its classes."""
        classes = self.folder / "classes" / Path(source).stem
        if not classes.exists():
            draft = classes.with_suffix(".new")
            command = [jdk_tool("javac"), "-cp", self.jars, "-d", str(draft), str(JAVA_SOURCES / source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise ServiceFailed(f"{source}\n{done.stderr[-3000:]}")
            draft.rename(classes)
        return classes

    def configure(self, properties: Mapping[str, object]) -> None:
        """Write ``spark-defaults.conf``, which spark-submit reads when it is given no properties file."""
        conf = self.folder / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "spark-defaults.conf").write_text(properties_text(properties))

    def _write(self, path: Path, script: str) -> None:
        draft = path.with_suffix(".tmp")
        draft.write_text(script)
        draft.chmod(0o755)
        draft.rename(path)


def properties_text(properties: Mapping[str, object]) -> str:
    """A Spark properties file."""
    return "".join(f"{name} {value}\n" for name, value in properties.items())
