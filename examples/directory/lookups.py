"""A task of two lookups: the extension of somebody's manager. One call leads to the next; guessing is possible."""

MANAGERS = {"Ada": "Grace", "Alan": "Edsger", "Barbara": "Grace", "Donald": "Edsger"}
EXTENSIONS = {"Ada": "118", "Alan": "204", "Barbara": "231", "Donald": "377", "Edsger": "452", "Grace": "639"}


def manager_of(name: str) -> str:
    """Look up who somebody reports to.

    Args:
        name: First name of the person.

    Returns:
        The first name of the manager.
    """
    return MANAGERS.get(name, "not in the directory")


def extension_of(name: str) -> str:
    """Look up somebody's telephone extension.

    Args:
        name: First name of the person.

    Returns:
        The number.
    """
    return EXTENSIONS.get(name, "not in the directory")


def tasks(count: int) -> list[dict[str, object]]:
    """Questions with their answer, and the two facts that a solution comes across."""
    people = list(MANAGERS)
    return [
        {
            "question": f"What is the extension of {person}'s manager? Look it up, and end with the number alone.",
            "answer": EXTENSIONS[MANAGERS[person]],
            "facts": [MANAGERS[person], EXTENSIONS[MANAGERS[person]]],
        }
        for person in (people[i % len(people)] for i in range(count))
    ]
