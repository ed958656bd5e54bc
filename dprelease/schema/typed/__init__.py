"""Types of the mappings that `Release` takes, for editors and type checkers.

They are in the stub of this package, which `generator` writes. A program names them in annotations:
`declaration: ReleaseMapping = {...}`. At run time, they are plain mappings.
"""

from collections.abc import Mapping

ReleaseMapping = Mapping[str, object]
TableMapping = Mapping[str, object]
