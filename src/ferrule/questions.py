"""Questions to the user, the model and the host as values, and what the user did with one.

For `InputRequired`, which a function returns that asks by hand, and for functions that take an answer.
"""

from ferrule.app.rounds.questions import (
    Accepted,
    Elicited,
    Question,
    Refused,
    elicit_question,
    elicit_url_question,
    roots_question,
    sample_question,
)

__all__ = [
    "Accepted",
    "Elicited",
    "Question",
    "Refused",
    "elicit_question",
    "elicit_url_question",
    "roots_question",
    "sample_question",
]
