"""The checked build: the compiled kernels once more, with a check before every raw access to memory.

Only tests import it. `kernels.compiled` and its intrinsics do not depend on it.

- `intrinsics`  the intrinsics of `compiled`, each behind a check of the memory that it touches
- `memory`      the table of the memory that kernels were given, and the check
- `build`       compiles a module of `compiled` with these intrinsics

A module of kernels that is missing here is found in `compiled`: Python runs its source a second time under this
package's name, so that its imports from `.intrinsics` take the checked ones.
"""

from __future__ import annotations

from kafkalog.records.kernels import compiled

__path__.extend(compiled.__path__)
