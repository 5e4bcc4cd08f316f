"""The server of the schedules as a program over stdio."""

from tests.schedules.world import make_app

if __name__ == "__main__":
    make_app().run("stdio")
