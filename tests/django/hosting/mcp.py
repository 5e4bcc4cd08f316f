"""What the application offers."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from ferrule import Context
from ferrule.django import mcp
from tests.django.shop.models import Invoice


def make(title: str) -> Invoice:
    """Write an invoice."""
    owner = User.objects.get(username="alice")
    return Invoice.objects.create(owner=owner, title=title, amount=1)


@mcp.tool
def where() -> dict[str, Any]:
    """Return where a sync function runs."""
    return {"pid": os.getpid(), "is_main": threading.current_thread() is threading.main_thread()}


@mcp.tool
async def count_later(prefix: str) -> int:
    """Count by the ORM's async methods."""
    return await Invoice.objects.filter(title__startswith=prefix).acount()


@mcp.tool
def write(title: str, fail: bool = False) -> int:
    """Write, and perhaps fail after it."""
    made = make(title)
    if fail:
        raise ValueError("after the write")
    return made.pk


@mcp.tool
async def steps(ctx: Context) -> str:
    """Report progress."""
    for step in range(3):
        await ctx.progress(step, 3, f"step {step}")
    return "done"


@mcp.tool
async def ask(ctx: Context) -> str:
    """Ask a question."""
    return (await ctx.elicit("Go on?", bool)).action


@mcp.tool
async def ask_across(ctx: Context) -> list[int]:
    """Ask a question; return the processes that ran the function before it and after it."""
    before = await ctx.step("before", os.getpid)
    await ctx.elicit("Go on?", bool)
    return [before, os.getpid()]


@mcp.tool
def ask_in_thread(title: str, ctx: Context, fail: bool = False) -> str:
    """Write in a step, ask, and write again."""
    ctx.from_thread(ctx.step, "before", lambda: make(f"{title} before").pk)
    action = ctx.from_thread(ctx.elicit, "Go on?", bool).action
    make(f"{title} after")
    if fail:
        raise ValueError("after the second write")
    return f"{action} {connection.in_atomic_block}"


@mcp.tool
async def wait(title: str) -> str:
    """Wait until the call is cancelled, which an invoice shows."""
    try:
        await Invoice.objects.acreate(owner=await User.objects.aget(username="alice"), title=f"{title} waits", amount=1)
        await asyncio.sleep(120)
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(Invoice.objects.filter(title=f"{title} waits").aupdate(title=title)))
        raise
    return "not cancelled"
