"""The objects of a small Kubernetes cluster, with their lives and changes; kubernetes_standin.py serves them.

https://kubernetes.io/docs/reference/using-api/api-concepts/ (resourceVersion, continue, watch, 410),
https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/ (selectors),
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ (phases, container states, termination).
"""

from __future__ import annotations

import copy
import re
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "pods": "Pod",
    "configmaps": "ConfigMap",
    "services": "Service",
    "secrets": "Secret",
    "persistentvolumeclaims": "PersistentVolumeClaim",
    "networkpolicies": "NetworkPolicy",
}
API_VERSIONS = {"networkpolicies": "networking.k8s.io/v1"}
NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")
ENDED = ("Succeeded", "Failed")
#: Annotations that decide a pod's life: seconds until it runs, until it succeeds, and to stop when deleted.
START, RUN, STOP = "standin/start-seconds", "standin/seconds", "standin/stop-seconds"


class StatusError(Exception):
    """What the API answers as a Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


@dataclass
class Stored:
    """One object, and what tests want to know of it once it is gone."""

    plural: str
    body: dict[str, Any]
    created_at: float = field(default_factory=time.time)
    ends_at: float | None = None
    gone_at: float | None = None
    deleted_by_request: bool = False
    deleted_while_active: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        metadata = self.body["metadata"]
        return self.plural, metadata["namespace"], metadata["name"]

    @property
    def phase(self) -> str:
        return str(self.body.get("status", {}).get("phase", ""))

    def seconds(self, annotation: str, default: float) -> float:
        return float(self.body["metadata"].get("annotations", {}).get(annotation, default))


class Cluster:
    """All objects; every change goes through here, under one lock, and gets a resourceVersion."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.objects: dict[tuple[str, str, str], Stored] = {}
        self.ever: list[Stored] = []
        self.version = 100
        self.events: list[tuple[int, str, str, dict[str, Any]]] = []

    # -- the API's verbs ------------------------------------------------------------------------

    def create(self, plural: str, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
        with self.changed:
            metadata = body.setdefault("metadata", {})
            name = metadata.get("name") or f"{metadata.get('generateName', '')}{uuid.uuid4().hex[:5]}"
            if not NAME.match(name):
                raise StatusError(422, "Invalid", f'{KINDS[plural]} "{name}" is invalid: metadata.name')
            if (plural, namespace, name) in self.objects:
                raise StatusError(409, "AlreadyExists", f'{plural} "{name}" already exists')
            metadata |= {
                "name": name,
                "namespace": namespace,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": _now(),
            }
            body |= {"kind": KINDS[plural], "apiVersion": API_VERSIONS.get(plural, "v1")}
            stored = Stored(plural, body)
            if plural == "pods":
                body["status"] = {"phase": "Pending", "startTime": _now(), "containerStatuses": []}
            self.objects[stored.key] = stored
            self.ever.append(stored)
            return self._record("ADDED", stored)

    def get(self, plural: str, namespace: str, name: str) -> Stored:
        with self.changed:
            self.tick()
            if (found := self.objects.get((plural, namespace, name))) is None:
                raise StatusError(404, "NotFound", f'{plural} "{name}" not found')
            return found

    def update(self, stored: Stored, change: dict[str, Any], *, replace: bool) -> dict[str, Any]:
        with self.changed:
            asked = change.get("metadata", {}).get("resourceVersion")
            if asked and asked != stored.body["metadata"]["resourceVersion"]:
                raise StatusError(409, "Conflict", "the object has been modified")
            kept = {name: stored.body["metadata"][name] for name in ("uid", "creationTimestamp")}
            status = stored.body.get("status")
            stored.body = copy.deepcopy(change) if replace else _merged(stored.body, change)
            stored.body["metadata"] |= kept
            if status is not None:
                stored.body["status"] = status
            return self._record("MODIFIED", stored)

    def apply(
        self, plural: str, namespace: str, name: str, body: dict[str, Any]
    ) -> tuple[int, dict[str, Any]]:
        """Server-side apply: create what is not there, change what is."""
        with self.changed:
            if (stored := self.objects.get((plural, namespace, name))) is None:
                body.setdefault("metadata", {})["name"] = name
                return 201, self.create(plural, namespace, body)
            return 200, self.update(stored, body, replace=False)

    def delete(self, stored: Stored, grace: float | None) -> dict[str, Any]:
        """End it: at once, or for a running pod after the time that its containers take to stop."""
        with self.changed:
            active = stored.plural == "pods" and stored.phase not in ENDED
            stored.deleted_by_request = True
            stored.deleted_while_active = stored.deleted_while_active or active
            needed = min(stored.seconds(STOP, 0), 30 if grace is None else grace)
            if active and needed > 0:
                if stored.ends_at is None:
                    stored.ends_at = time.time() + needed
                    stored.body["metadata"] |= {"deletionTimestamp": _now()}
                return self._record("MODIFIED", stored)
            return self._remove(stored)

    def listed(
        self, plural: str, namespace: str | None, labels: str, fields: str
    ) -> tuple[list[dict[str, Any]], int]:
        with self.changed:
            self.tick()
            found = [
                copy.deepcopy(one.body)
                for key, one in sorted(self.objects.items())
                if key[0] == plural and namespace in (None, key[1]) and selected(one.body, labels, fields)
            ]
            return found, self.version

    # -- a pod's life ---------------------------------------------------------------------------

    def tick(self) -> None:
        """Have time pass."""
        with self.changed:
            for stored in [one for one in self.objects.values() if one.plural == "pods"]:
                old_enough = self._age(stored) >= stored.seconds(START, 0.3)
                if stored.phase == "Pending" and old_enough and self._can_mount(stored):
                    self.set_phase(stored, "Running")
                if stored.phase == "Running" and self._age(stored) >= stored.seconds(RUN, 1e9):
                    self.finish(stored, 0, None)
                if stored.ends_at and time.time() >= stored.ends_at:
                    self._remove(stored)

    def _can_mount(self, stored: Stored) -> bool:
        """Whether the config maps of its volumes are there; a kubelet waits for them without end."""
        volumes = stored.body["spec"].get("volumes") or []
        names = [one["configMap"]["name"] for one in volumes if "configMap" in one]
        namespace = stored.body["metadata"]["namespace"]
        return all(("configmaps", namespace, name) in self.objects for name in names)

    def _age(self, stored: Stored) -> float:
        return time.time() - stored.created_at

    def set_phase(self, stored: Stored, phase: str) -> None:
        status = stored.body["status"]
        status["phase"] = phase
        if phase == "Running":
            self._containers(stored, {"running": {"startedAt": _now()}})
        if phase == "Unknown":
            status |= {"reason": "NodeLost", "message": "Node which was running pod is unresponsive"}
        self._record("MODIFIED", stored)

    def finish(self, stored: Stored, exit_code: int, reason: str | None) -> None:
        """End its container with this exit code."""
        reason = reason or ("Completed" if exit_code == 0 else "Error")
        ended = {"exitCode": exit_code, "reason": reason, "startedAt": _now(), "finishedAt": _now()}
        self._containers(stored, {"terminated": ended})
        stored.body["status"]["phase"] = "Succeeded" if exit_code == 0 else "Failed"
        self._record("MODIFIED", stored)

    def _containers(self, stored: Stored, state: dict[str, Any]) -> None:
        stored.body["status"]["containerStatuses"] = [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "",
                "ready": "running" in state,
                "restartCount": 0,
                "state": state,
            }
            for container in stored.body["spec"]["containers"]
        ]

    def collect(self, stored: Stored) -> None:
        """Remove it, as the garbage collector of ended pods, or the end of its node, does."""
        with self.changed:
            self._remove(stored)

    def _remove(self, stored: Stored) -> dict[str, Any]:
        self.objects.pop(stored.key, None)
        stored.gone_at = time.time()
        uid = stored.body["metadata"]["uid"]
        event = self._record("DELETED", stored)
        # What names it as its owner goes with it.
        for other in list(self.objects.values()):
            if uid in [owner["uid"] for owner in other.body["metadata"].get("ownerReferences", [])]:
                self._remove(other)
        return event

    # -- versions and watches -------------------------------------------------------------------

    def _record(self, kind: str, stored: Stored) -> dict[str, Any]:
        self.version += 1
        stored.body["metadata"]["resourceVersion"] = str(self.version)
        body = copy.deepcopy(stored.body)
        self.events.append((self.version, kind, stored.plural, body))
        del self.events[:-5000]
        self.changed.notify_all()
        return body

    def events_after(self, version: int) -> list[tuple[int, str, str, dict[str, Any]]]:
        """The changes since a version.

        :raises StatusError: 410, when some of them are no longer known
        """
        with self.changed:
            if self.events and version < self.events[0][0] - 1:
                raise StatusError(410, "Expired", f"too old resource version: {version}")
            return [event for event in self.events if event[0] > version]


def _merged(old: Any, change: Any) -> Any:
    """https://www.rfc-editor.org/rfc/rfc7386, a merge patch."""
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    merged = dict(old) if isinstance(old, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def selected(body: dict[str, Any], labels: str, fields: str) -> bool:
    """Whether an object meets a label selector and a field selector."""
    own = body["metadata"].get("labels") or {}
    known = {
        "metadata.name": body["metadata"]["name"],
        "metadata.namespace": body["metadata"]["namespace"],
        "status.phase": body.get("status", {}).get("phase", ""),
    }
    return all(_meets(own, one) for one in _requirements(labels)) and all(
        _meets(known, one) for one in _requirements(fields)
    )


def _requirements(selector: str) -> list[str]:
    """Split at the commas that are not in brackets."""
    return [one.strip() for one in re.split(r",(?![^(]*\))", selector) if one.strip()]


def _meets(values: dict[str, str], requirement: str) -> bool:
    if many := re.match(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$", requirement):
        wanted = [one.strip() for one in many[3].split(",")]
        return (values.get(many[1]) in wanted) == (many[2] == "in")
    if one := re.match(r"^([^!=\s]+)\s*(==|=|!=)\s*(\S*)$", requirement):
        return (values.get(one[1]) == one[3]) == (one[2] != "!=")
    if re.match(r"^!?[A-Za-z0-9][-A-Za-z0-9_./]*$", requirement):
        return (requirement.lstrip("!") in values) != requirement.startswith("!")
    raise StatusError(400, "BadRequest", f"unable to parse requirement: {requirement!r}")
