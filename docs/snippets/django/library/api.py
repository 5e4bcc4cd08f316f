# --8<-- [start:api]
from ninja import NinjaAPI, Schema

api = NinjaAPI(urls_namespace="staff")


class Hours(Schema):
    day: str
    opens: str


@api.get("/hours/{day}", response=Hours)
def opening_hours(request, day: str):
    """Tell when the library opens."""
    return {"day": day, "opens": "closed" if day == "sunday" else "09:00"}


# --8<-- [end:api]
