"""All rows and all laws."""

from __future__ import annotations

from tests.conformance import laws, token_laws
from tests.conformance.law import LAWS
from tests.conformance.row import Row
from tests.conformance.rows_batch import ROWS as _BATCH
from tests.conformance.rows_critic import ROWS as _CRITIC
from tests.conformance.rows_group import ROWS as _GROUP
from tests.conformance.rows_judged import ROWS as _JUDGED
from tests.conformance.rows_modulated import ROWS as _MODULATED
from tests.conformance.rows_recipes import ROWS as _RECIPES
from tests.conformance.rows_trees import ROWS as _TREES
from tests.conformance.rows_turns import ROWS as _TURNS

__all__ = ["LAWS", "ROWS", "laws", "token_laws"]

ROWS: list[Row] = [*_GROUP, *_BATCH, *_CRITIC, *_JUDGED, *_MODULATED, *_RECIPES, *_TREES, *_TURNS]
