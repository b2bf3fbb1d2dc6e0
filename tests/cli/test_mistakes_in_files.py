"""Files as new users have them, and what ``setwise train`` says: the option or the line, what came, what to do."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path

import pytest

from mistakes import check_mistake, each_of

GOOD = "playlist,track,time\n" + "".join(f"{i // 3},s{i * 7 % 9},2024-01-{i + 1:02}\n" for i in range(30))
SLATES = "session,slate,item,outcome\n1,1,a,{}\n1,1,b,0\n"
FILES: Mapping[str, str | bytes] = {
    "good.csv": GOOD,
    "empty.csv": "",
    "header.csv": "playlist,track\n",
    "binary.csv": bytes(range(256)) * 4,
    "nul.csv": b"playlist,track\n1,a\0b\n",
    "space.csv": GOOD.replace(",", " "),
    "semicolon.csv": GOOD.replace(",", ";"),
    "latin.jsonl": '{"session": 1, "item": "café"}\n'.encode("latin-1"),
    "other.csv": "a,b\n1,2\n",
    "tracks.csv": "track_id,title\ns1,One\n",
    "foreign.csv": "track_id,title\n000017,One\n",
    "twice.csv": "playlist,track,track\n1,a,b\n1,c,d\n",
    "no_items.csv": "playlist,track\n1,\n1,\n2,\n",
    "nan.csv": "playlist,track\n1,NaN\n1,nan\n",
    "mixed.csv": "playlist,track\n1,18\n1,18.0\n2,19\n",
    "single.csv": "playlist,track\n" + "".join(f"{i},s{i}\n" for i in range(20)),
    "same.csv": "playlist,track\n1,a\n1,a\n2,b\n2,b\n",
    "words.csv": "playlist,track,time\n1,a,yesterday\n1,b,today\n",
    "month.csv": "playlist,track,date\n1,a,13/25/2024\n1,b,12/12/2024\n",
    "ambiguous.csv": "playlist,track,date\n1,a,01/02/2024\n1,b,03/04/2024\n",
    "kinds.csv": "playlist,track,time\n1,a,2024-01-01\n1,b,17\n",
    "negative.csv": SLATES.format(-1),
    "yes.csv": SLATES.format("yes"),
    "stars.csv": SLATES.format(5),
    "unknown.csv": SLATES.format(""),
    "wide.csv": "playlist,track\n1,a\n1,b,c\n",
    "quote.csv": 'playlist,track\n1,"a\n1,b\n2,c\n',
    "sheet.xlsx": b"PK\3\4",
    "extensionless": GOOD,
    "cut.csv.gz": gzip.compress(GOOD.encode())[:60],
    "plain.csv.gz": GOOD,
    "broken.jsonl": "{oops}\n",
    "lists.jsonl": "[1, 2]\n",
    "object.json": "{}",
    "words.txt": "milk bread\n",
    "fake.parquet": "x",
    "table/part-0.csv": GOOD,
    "taken/notes.txt": "x",
}

# a command, and what its answer must name: the option or the place, the value that came, the remedy
MISTAKES = [
    ("train missing.csv --out m", "FILE", "'missing.csv', where there is none"),
    ("train good.cvs --out m", "FILE", "'good.cvs'", "did you mean 'good.csv'?"),
    ("train table --out m", "FILE", "the folder 'table'", "check the path"),
    ("train empty.csv --out m", "empty.csv, line 1", "is empty", "check that it was written"),
    ("train header.csv --out m", "FILE", "header.csv: no row below the header", "--session and --item"),
    ("train binary.csv --out m", "binary.csv, line 1", "NUL bytes", "save a spreadsheet as CSV"),
    ("train nul.csv --out m", "nul.csv, line 2", "NUL bytes", "save a spreadsheet as CSV"),
    ("train space.csv --out m", "--item", "space.csv with playlist track time", "--delimiter"),
    ("train semicolon.csv --delimiter , --out m", "--item", "playlist;track;time", "--delimiter"),
    ("train good.csv --delimiter ;; --out m", "--delimiter", "';;'", "pass for instance ';'"),
    ("train latin.jsonl --out m", "latin.jsonl, line 1", "byte 0xe9", "convert the file to UTF-8"),
    ("train other.csv --out m", "--item", "other.csv with a, b", "name the column", "--baskets"),
    ("train other.csv --item b --out m", "--session", "other.csv with a, b", "name the column"),
    ("train good.csv --session playlst --out m", "--session", "'playlst'", "did you mean 'playlist'?"),
    ("train good.csv --item Tracks --out m", "--item", "'Tracks'", "did you mean 'track'?"),
    ("train good.csv --time tim --out m", "--time", "'tim'", "did you mean 'time'?"),
    ("train good.csv --quantity qunatity --out m", "--quantity", "'qunatity'", "pass the name of a column"),
    ("train good.csv --attribute titel --out m", "--attribute", "'titel'", "pass the name of a column"),
    ("train good.csv --attribute =x --out m", "--attribute", "'=x'", "name the column"),
    ("train good.csv --attribute a=time --attribute a=track --out m", "--attribute", "a twice", "keep one of them"),
    ("train twice.csv --out m", "--item", "'track' twice", "rename one of the two"),
    ("train no_items.csv --out m", "FILE", "no_items.csv: 3 rows without an item", "--item"),
    ("train nan.csv --out m", "FILE", "nan.csv: 2 rows without an item", "--item"),
    ("train mixed.csv --out m", "mixed.csv, line 3", "'18' and '18.0'", "remove '.0'"),
    ("train single.csv --out m", "20 sessions of one item", "check --session"),
    ("train same.csv --out m", "2 sessions of one item", "check --session"),
    ("train words.csv --out m", "words.csv, line 2", "'yesterday'", "--time-format", "--no-time", "--on-error skip"),
    ("train month.csv --out m", "month.csv, line 2", "'13/25/2024'", "--time-format"),
    ("train ambiguous.csv --out m", "--time-format", "'01/02/2024'", "'%m/%d/%Y' or '%d/%m/%Y'"),
    ("train kinds.csv --out m", "kinds.csv, line 3", "'17'", "--no-time"),
    ("train good.csv --time-format %d/%m/%Y --out m", "line 2", "'%d/%m/%Y'", "'2024-01-01'", "--on-error skip"),
    ("train good.csv --no-time --time time --out m", "--no-time", "--time", "leave one of them out"),
    ("train good.csv --on-error ignore --out m", "--on-error", "'ignore'", "'stop' or 'skip'"),
    ("train negative.csv --out m", "negative.csv, line 2", "'outcome'", "'-1'", "0 to 1", "--on-error skip"),
    ("train yes.csv --out m", "yes.csv, line 2", "'outcome'", "'yes'", "true or false"),
    ("train stars.csv --out m", "stars.csv, line 2", "'outcome'", "'5'", "0 to 1"),
    ("train unknown.csv --out m", "unknown.csv, line 2", "'outcome'", "''", "0 for none"),
    ("train good.csv --slate time --out m", "--outcome", "good.csv with playlist, track, time", "name the column"),
    ("train good.csv --outcome time --out m", "--outcome", "'time'", "--slate", "--set"),
    ("train wide.csv --out m", "wide.csv, line 3", "2 cells", "got 3", "--on-error skip"),
    ("train quote.csv --out m", "quote.csv, line 2", "','", "unexpected end", "--on-error skip"),
    ("train sheet.xlsx --out m", "FILE", "'sheet.xlsx'", "save it as .csv"),
    ("train extensionless --out m", "FILE", "'extensionless'", "rename it"),
    ("train cut.csv.gz --out m", "cut.csv.gz, line", "damaged", "copy it again"),
    ("train plain.csv.gz --out m", "plain.csv.gz, line 1", "rename it without .gz"),
    ("train broken.jsonl --out m", "broken.jsonl, line 1", "'{oops}'", "check how the file was written"),
    ("train lists.jsonl --out m", "lists.jsonl, line 1", "'[1, 2]'", "write {column: value}"),
    ("train object.json --out m", "FILE", "'object.json'", "write one object a line, and name it .jsonl"),
    ("train words.txt --out m", "words.txt, line 1", "'milk bread'", "--baskets"),
    ("train fake.parquet --out m", "fake.parquet", "1 bytes", "write it again"),
    ("train good.csv --items tracks.csv --out m", "--items", "tracks.csv alone", "--attribute"),
    ("train good.csv --items no.csv --attribute artist --out m", "--items", "'no.csv'", "did you mean 'nul.csv'?"),
    ("train good.csv --items other.csv --attribute b --out m", "--items", "other.csv with ['a', 'b']", "--item"),
    ("train good.csv --items foreign.csv --attribute title --out m", "foreign.csv", "none of them", "the same ids"),
    ("train good.csv --items tracks.csv --attribute titel --out m", "--attribute", "'titel'", "did you mean 'title'?"),
    ("train good.csv --least-sessions 1000 --out m", "--least-sessions", "1000", "lower it"),
    ("train good.csv --group site --out m", "--outcome", "good.csv with playlist, track, time", "name the column"),
    ("train good.csv --user-columns 'f_*' --out m", "--session", "good.csv with playlist", "name the column"),
    ("train good.csv --out taken", "--out", "taken with other files", "choose a folder"),
    ("train good.csv --out good.csv", "--out", "good.csv", "choose a folder"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@each_of(MISTAKES)
def test_a_mistake_is_explained(
    command: str,
    words: list[str],
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_mistake(monkeypatch, capsys, files, command, words)
