# Who is asking, as graphs, rules and routes of a project see the user.


class User(dict):
    """The user under LangGraph's names: members are attributes too."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def is_authenticated(self) -> bool:
        return bool(self.get("is_authenticated", True))

    @property
    def display_name(self) -> str:
        return self.get("display_name") or self.get("identity", "")

    @property
    def permissions(self):
        return self.get("permissions") or []
