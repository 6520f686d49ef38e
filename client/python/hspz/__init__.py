"""Client of hspzd in pure Python: anchors, HSPs and filters as numpy arrays.

    import hspz

    with hspz.connect("unix:/run/hspz/hspz.sock") as client:
        query = hspz.Query.from_fasta("query.fa.gz")
        for part in client.discover("ecoli", query):
            print(part.strand, part.reference[:3], part.query[:3])

Arrays are views of what was received. A loop over a discovery that comes to its end had every
record, in order; anything else is an exception (`hspz.Error`)."""

from .address import Address
from .channel import Tls
from .client import VERSION as __version__
from .client import Client, Server, connect
from .discovery import Discovery, Summary, Totals
from .errors import (BadFile, BadPeer, BadRequest, Cancelled, DeadlineExceeded, DeviceError, Error,
                     FileError, Forbidden, HitsOverflow, Incomplete, Internal, NoServer, NotReady,
                     OutOfMemory, QueueFull, QuotaExceeded, ServerError, ShuttingDown, TooLarge,
                     Unauthorized, UnknownFilter, UnknownIndex, UnknownMethod, Unsupported)
from .filters import ENTRY, Answers, Filter, FilterEntry, Filters, FilterState
from .index import Index, IndexEntry, LoadedIndex
from .parts import ANCHOR, HSP, Anchors, Head, Hsps, Part
from .sequences import Layout, Query, Windows

__all__ = [
    "ANCHOR", "Address", "Anchors", "Answers", "BadFile", "BadPeer", "BadRequest", "Cancelled",
    "Client", "DeadlineExceeded", "DeviceError", "Discovery", "ENTRY", "Error", "FileError",
    "Filter", "FilterEntry", "FilterState", "Filters", "Forbidden", "HSP", "Head", "HitsOverflow",
    "Hsps", "Incomplete", "Index", "IndexEntry", "Internal", "Layout", "LoadedIndex", "NoServer",
    "NotReady", "OutOfMemory", "Part", "Query", "QueueFull", "QuotaExceeded", "Server",
    "ServerError", "ShuttingDown", "Summary", "Tls", "TooLarge", "Totals", "Unauthorized",
    "UnknownFilter", "UnknownIndex", "UnknownMethod", "Unsupported", "Windows", "__version__",
    "connect"]
