"""What the named data sets are, where they come from, and under which terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from deepfls.data import turbidity

_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of a named set before it is read.

    Attributes
    ----------
    n_rows : int
        Rows of the whole set.
    feature_names, target_names : tuple of str
        Columns, in order.
    description, citation, licence : str
        What it is, whom to cite, and the terms of use.
    files : tuple of str
        Names under which it is accepted in a folder, the first found first.
    url, sha256 : str
        Where the official file is and the digest of its bytes; empty for a set that comes with a package.
    """

    n_rows: int
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    description: str
    citation: str
    licence: str
    files: tuple[str, ...] = ()
    url: str = ""
    sha256: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.feature_names, *self.target_names)


DATASETS: Mapping[str, DatasetInfo] = MappingProxyType(
    {
        "ccpp": DatasetInfo(
            n_rows=9_568,
            feature_names=("AT", "V", "AP", "RH"),
            target_names=("PE",),
            description="Hourly electrical output (MW) of a combined cycle power plant at full load over six years, from "
            "ambient temperature, exhaust vacuum, ambient pressure and relative humidity; its 41 duplicate rows stay.",
            citation="P. Tüfekci, Prediction of full load electrical power output of a base load operated combined cycle "
            "power plant using machine learning methods, Int. J. Electr. Power Energy Syst. 60 (2014) 126-140; UCI 294.",
            licence="CC BY 4.0",
            files=("ccpp.csv", "Folds5x2_pp.xlsx", "CCPP.zip"),
            url=f"{_UCI}/00294/CCPP.zip",
            sha256="cc7b2a4977c0a44e8221c91d9a7e5746b3c68186cff7e5c61c70af6432b98c7a",
        ),
        "boston": DatasetInfo(
            n_rows=506,
            feature_names=(
                *("CRIM", "ZN", "INDUS", "CHAS", "NOX", "RM", "AGE"),
                *("DIS", "RAD", "TAX", "PTRATIO", "B", "LSTAT"),
            ),
            target_names=("MEDV",),
            description="Median value (1000 $) of homes in the census tracts of Boston, 1970. Column B encodes the share "
            "of Black residents on an assumption that is ethically contested: the set is here only to compare with "
            "published results. boston.csv, as the paper used it, is a rounded copy of the official housing.data.",
            citation="D. Harrison and D. L. Rubinfeld, Hedonic housing prices and the demand for clean air, J. Environ. "
            "Econ. Manag. 5 (1978) 81-102; StatLib.",
            licence="none stated",
            files=("boston.csv", "housing.data"),
            url=f"{_UCI}/housing/housing.data",
            sha256="baadf72995725d76efe787b664e1f083388c79ba21ef9a7990d87f774184735a",
        ),
        "enb": DatasetInfo(
            n_rows=768,
            feature_names=("X1", "X2", "X3", "X4", "X5", "X6", "X7", "X8"),
            target_names=("Y1", "Y2"),
            description="Heating (Y1) and cooling (Y2) load of simulated buildings, from compactness, surface, wall and "
            "roof area, height, orientation, glazing area and its distribution; several inputs take few values.",
            citation="A. Tsanas and A. Xifara, Accurate quantitative estimation of energy performance of residential "
            "buildings using statistical machine learning tools, Energy Build. 49 (2012) 560-567; UCI 242.",
            licence="CC BY 4.0",
            files=("enb.csv", "ENB2012_data.xlsx"),
            url=f"{_UCI}/00242/ENB2012_data.xlsx",
            sha256="0089fcffc1415e41e2ff63730cca5280efe54fc43d722dfde1b0aaa808e35dc4",
        ),
        "turbidity": DatasetInfo(
            n_rows=111_974_400,
            feature_names=turbidity.FEATURE_NAMES,
            target_names=("turbidity",),
            description="Linke turbidity of the air in every month and cell (1/12 degree) of a world map, from the place "
            "on the unit sphere, the month on the unit circle and the altitude (m); cells without an altitude, nearly all "
            "of them sea, are at 0 m.",
            citation="J. Remund, L. Wald, M. Lefèvre, T. Ranchin and J. Page, Worldwide Linke turbidity information, "
            "Proc. ISES Solar World Congress, Göteborg (2003); files of pvlib.",
            licence="BSD-3-Clause (pvlib)",
            files=turbidity.FILE_NAMES,
        ),
        "diabetes": DatasetInfo(
            n_rows=442,
            feature_names=("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6"),
            target_names=("progression",),
            description="Progression of diabetes in one year, from ten measurements of each patient in their own units.",
            citation="B. Efron, T. Hastie, I. Johnstone and R. Tibshirani, Least angle regression, Ann. Statist. 32 (2004) "
            "407-499; file of scikit-learn.",
            licence="BSD-3-Clause (scikit-learn)",
        ),
    }
)
