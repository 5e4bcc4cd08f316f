# ruff: noqa: F821
# --8<-- [start:code]
INSTALLED_APPS += ["rest_framework", "rest_framework.authtoken", "notes", "ferrule.django"]

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
    "PAGE_SIZE": 50,
}
# --8<-- [end:code]
