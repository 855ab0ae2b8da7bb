"""Every SQL statement of the embedded home. What runs for each request must be a search, never a scan.

`changes` holds each body once, under the revision that wrote it; `objects` says which revision is current. A superseded
body stays until compaction, so a list continues on its own snapshot and a watch resumes where it stopped.
"""

CREATE_CHANGES = """
CREATE TABLE IF NOT EXISTS changes (
    revision  INTEGER PRIMARY KEY,
    resource  TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    created   INTEGER NOT NULL,
    previous  INTEGER NOT NULL,
    gap       INTEGER NOT NULL,
    checksum  INTEGER NOT NULL,
    body      BLOB
)"""
# created: the revision of the object's creation; previous: the revision this one replaces, 0 for a create;
# gap: where the resourceVersion's digits start in the body; body: NULL for a delete.

CREATE_CHANGES_BY_RESOURCE = "CREATE INDEX IF NOT EXISTS changes_by_resource ON changes (resource, revision)"

CREATE_OBJECTS = """
CREATE TABLE IF NOT EXISTS objects (
    resource  TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    revision  INTEGER NOT NULL,
    created   INTEGER NOT NULL,
    PRIMARY KEY (resource, namespace, name)
) WITHOUT ROWID"""

CREATE_DEPARTED = """
CREATE TABLE IF NOT EXISTS departed (
    revision  INTEGER PRIMARY KEY,
    node      TEXT NOT NULL,
    resource  TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name      TEXT NOT NULL,
    checksum  INTEGER NOT NULL,
    body      BLOB NOT NULL
)"""
# revision: of the write that let go of what is still charged, by a Pod's node, or by the Pods that used a claim (whose
# node is empty); body: the object's before that write.

CREATE_DEPARTED_BY_NODE = "CREATE INDEX IF NOT EXISTS departed_by_node ON departed (node, revision)"

CREATE_COMPACTED = (
    "CREATE TABLE IF NOT EXISTS compacted (id INTEGER PRIMARY KEY CHECK (id = 1), revision INTEGER NOT NULL)"
)

FILL_COMPACTED = "INSERT OR IGNORE INTO compacted VALUES (1, 0)"

LAST_REVISION = "SELECT coalesce(max(revision), 1) FROM changes"
# The first write gets revision 2: resourceVersion 0 has a meaning of its own in Kubernetes, so no list may return it.

COMPACTED_REVISION = "SELECT revision FROM compacted"

GET = """
SELECT o.revision, c.body FROM objects AS o JOIN changes AS c ON c.revision = o.revision
WHERE o.resource = ? AND o.namespace = ? AND o.name = ?"""

CURRENT = """
SELECT o.revision, o.created, c.gap, c.body FROM objects AS o JOIN changes AS c ON c.revision = o.revision
WHERE o.resource = ? AND o.namespace = ? AND o.name = ?"""

PAGE = """
SELECT o.resource, o.namespace, o.name, o.revision, c.body
FROM objects AS o JOIN changes AS c ON c.revision = o.revision
WHERE o.resource = :resource AND (o.namespace, o.name) > (:after_namespace, :after_name)
ORDER BY o.namespace, o.name LIMIT :limit"""

PAGE_OF_NAMESPACE = """
SELECT o.resource, o.namespace, o.name, o.revision, c.body
FROM objects AS o JOIN changes AS c ON c.revision = o.revision
WHERE o.resource = :resource AND o.namespace = :namespace AND o.name > :after_name
ORDER BY o.name LIMIT :limit"""

COUNT = """
SELECT count(*) FROM objects
WHERE resource = :resource AND (namespace, name) > (:after_namespace, :after_name)"""

COUNT_OF_NAMESPACE = """
SELECT count(*) FROM objects WHERE resource = :resource AND namespace = :namespace AND name > :after_name"""

_KEYS_AT = """
SELECT namespace, name, revision FROM objects
WHERE resource = :resource AND revision <= :at AND {after}
UNION ALL
SELECT namespace, name, previous FROM changes
WHERE resource = :resource AND revision > :at AND previous BETWEEN 1 AND :at AND {after}"""
# What an object was at a past revision: its current row if that is not newer, else what its next change replaced.

_AFTER = "(namespace, name) > (:after_namespace, :after_name)"
_AFTER_IN_NAMESPACE = "namespace = :namespace AND name > :after_name"

_PAGE_AT = """
SELECT :resource, k.namespace, k.name, k.revision, c.body
FROM ({keys} ORDER BY namespace, name LIMIT :limit) AS k CROSS JOIN changes AS c ON c.revision = k.revision"""

PAGE_AT = _PAGE_AT.format(keys=_KEYS_AT.format(after=_AFTER))
PAGE_AT_OF_NAMESPACE = _PAGE_AT.format(keys=_KEYS_AT.format(after=_AFTER_IN_NAMESPACE))
COUNT_AT = f"SELECT count(*) FROM ({_KEYS_AT.format(after=_AFTER)})"
COUNT_AT_OF_NAMESPACE = f"SELECT count(*) FROM ({_KEYS_AT.format(after=_AFTER_IN_NAMESPACE)})"

REPLAY = """
SELECT c.revision, c.namespace, c.name, c.body, c.checksum, c.previous, p.gap, p.body
FROM changes AS c LEFT JOIN changes AS p ON p.revision = c.previous
WHERE c.resource = ? AND c.revision > ? AND c.revision <= ? ORDER BY c.revision LIMIT ?"""

APPEND = "INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

ADD = "INSERT INTO objects VALUES (?, ?, ?, ?, ?)"

PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"

REMOVE = "DELETE FROM objects WHERE resource = ? AND namespace = ? AND name = ?"

DEPART = "INSERT INTO departed VALUES (?, ?, ?, ?, ?, ?, ?)"

SETTLE = "DELETE FROM departed WHERE revision = ?"

SUPERSEDED = """
DELETE FROM changes WHERE revision IN (
    SELECT previous FROM changes WHERE revision > :compacted AND revision <= :floor AND previous > 0)"""

DELETIONS = "DELETE FROM changes WHERE revision > :compacted AND revision <= :floor AND body IS NULL"

COMPACT = "UPDATE compacted SET revision = :floor WHERE id = 1"

EVERY_OBJECT = """
SELECT o.resource, o.namespace, o.name, o.revision, o.created,
       c.resource, c.namespace, c.name, c.created, c.checksum, c.body
FROM objects AS o LEFT JOIN changes AS c ON c.revision = o.revision"""

EVERY_DEPARTED = "SELECT revision, node, resource, namespace, name, checksum, body FROM departed ORDER BY revision"
