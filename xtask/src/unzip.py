"""Takes chosen members out of a wheel: unzip.py WHEEL FOLDER SOURCE=TARGET...

A SOURCE that ends in "/" is a folder, and its TARGET the folder to put its content in.
"""

import pathlib
import shutil
import sys
import zipfile

wheel, folder, *pairs = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    names = archive.namelist()
    for pair in pairs:
        source, target = pair.split("=")
        chosen = [n for n in names if n == source or (source.endswith("/") and n.startswith(source))]
        if not chosen:
            sys.exit(f"{wheel} has no {source}")
        for name in chosen:
            if name.endswith("/"):
                continue
            path = pathlib.Path(folder, target + name[len(source):])
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as reader, open(path, "wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
