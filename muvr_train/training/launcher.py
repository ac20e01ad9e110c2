"""Lightning's launcher of processes, without its observer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightning_fabric.strategies.ddp import DDPStrategy as FabricDDP
from lightning_fabric.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from lightning_fabric.utilities.distributed import _set_num_threads_if_needed


class _Launcher(_SubprocessScriptLauncher):
    """Lightning's launcher without its observer, which kills the first process before that can say what happened."""

    def launch(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self.cluster_environment.validate_settings(num_devices=self.num_processes, num_nodes=self.num_nodes)
        if not self.cluster_environment.creates_processes_externally:
            self._call_children_scripts()
        _set_num_threads_if_needed(num_processes=self.num_processes)
        return function(*args, **kwargs)


class Strategy(FabricDDP):
    """Data-parallel processes started by the launcher above."""

    def _configure_launcher(self) -> None:
        if self.cluster_environment is None:
            raise RuntimeError("Lightning has not told the strategy where it runs")
        self._launcher = _Launcher(self.cluster_environment, self.num_processes, self.num_nodes)
