"""The lookups as function tools of veRL."""

import os
import sys

from verl.tools.function_tool import function_tool

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "directory"))
from lookups import extension_of, manager_of

function_tool(manager_of)
function_tool(extension_of)
