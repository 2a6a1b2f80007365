"""A service is ended with all that it started, whoever goes first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from harness import guard
from harness.processes import OWNER_VARIABLE, ServiceFailed, ServiceProcess, WaitTimeout, wait_until

# A service with a child in a session of its own that ignores TERM, as a daemon may.
FAMILY = """
import signal, subprocess, sys, time
child = subprocess.Popen(
    [sys.executable, "-c",
     "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\\n"
     "print('up', flush=True); time.sleep(600)"],
    start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


def start_family(folder):
    command = [sys.executable, "-S", "-c", FAMILY]
    service = ServiceProcess.start("family", command, folder=folder, grace=0.5)
    log = folder / "family.log"
    child = int(wait_until(lambda: log.read_text().strip() or None, "the child is up"))
    assert guard.start_time(child)
    return service, child


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_service_ends_with_its_descendants(tmp_path, how):
    service, child = start_family(tmp_path)
    getattr(service, how)()
    assert not service.alive()
    assert guard.start_time(service.pid) is None
    assert guard.start_time(child) is None


def test_a_service_ends_when_the_run_that_wanted_it_is_killed(tmp_path, monkeypatch):
    owner = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    monkeypatch.setenv(OWNER_VARIABLE, str(owner.pid))
    service, child = start_family(tmp_path)
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    wait_until(lambda: not service.alive(), "the service has ended", timeout=20)
    assert guard.start_time(service.pid) is None
    assert guard.start_time(child) is None


def test_another_process_can_end_a_service(tmp_path):
    service, child = start_family(tmp_path)
    ServiceProcess.from_dict(service.to_dict()).stop()
    assert guard.start_time(child) is None


def test_a_service_that_ends_while_starting_shows_its_log(tmp_path):
    command = [sys.executable, "-S", "-c", "print('no config'); raise SystemExit(3)"]
    with pytest.raises(ServiceFailed, match="no config"):
        ServiceProcess.start("broken", command, folder=tmp_path, ready=lambda: False)


def test_waiting_has_an_end():
    with pytest.raises(WaitTimeout, match="pigs fly"):
        wait_until(lambda: False, "pigs fly", timeout=0.1, interval=0.02)
