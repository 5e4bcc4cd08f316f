from django.db import models


class Book(models.Model):
    title = models.CharField(max_length=80)
    pages = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=6, decimal_places=2, default=0)
