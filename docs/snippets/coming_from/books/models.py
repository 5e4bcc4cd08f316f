from django.db import models


class Book(models.Model):
    title = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=6, decimal_places=2)
