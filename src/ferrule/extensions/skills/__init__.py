"""Serve agent skills: folders with a ``SKILL.md`` (SEP-2640, ``io.modelcontextprotocol/skills``).

``app.add_skills("skills/")`` and ``@app.skill(…)`` add the extension; `Skills` changes its bounds.
"""

from ferrule.extensions.skills.extension import Skills
from ferrule.extensions.skills.folder import SkillFolderError

__all__ = ["SkillFolderError", "Skills"]
