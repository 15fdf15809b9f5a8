"""The column that ``mmpca check`` takes for the label, on headers of well-known public tables with made-up rows."""
# ruff: noqa: E501

import numpy as np
import pandas as pd
import pytest

from mmpca_dist.runs.check import check
from mmpca_dist.runs.draft import suggested_yaml

SHARE = 0.9
"""Of the usual labels of these tables that are found."""
TABLES = {
    "iris": ("sepal_length f, sepal_width f, petal_length f, petal_width f, species 3", "species"),
    "iris with identifiers": ("Id id, SepalLengthCm f, SepalWidthCm f, PetalLengthCm f, PetalWidthCm f, Species 3", "Species"),
    "titanic": ("PassengerId id, Survived b, Pclass k, Name text, Sex 2, Age f, SibSp k, Parch k, Fare f, Embarked 3", "Survived"),
    "titanic of seaborn": ("survived b, pclass k, sex 2, age f, sibsp k, fare f, embarked 3, class 3, who 3, alone y", "survived"),
    "adult": ("age n, workclass 8, fnlwgt n, education 16, education-num k, marital-status 7, occupation 14, race 5, sex 2, "
              "hours-per-week n, native-country 40, income 2", "income"),
    "wine": ("class k, alcohol f, malic_acid f, ash f, magnesium n, proline n", "class"),
    "wine of R": ("Type k, Alcohol f, Malic f, Ash f, Phenols f, Proline f", "Type"),
    "wine quality": ("fixed acidity f, residual sugar f, pH f, alcohol f, quality k", "quality"),
    "mushrooms": ("class 2, cap-shape 6, cap-surface 4, odor 9, ring-type 5, population 6, habitat 7", "class"),
    "mushrooms of UCI": ("poisonous 2, cap-shape 6, cap-surface 4, odor 9, ring-type 5, habitat 7", "poisonous"),
    "german credit": ("checking_status 4, duration n, credit_history 5, purpose 10, credit_amount n, job 4, class 2", "class"),
    "german credit of Kaggle": ("Unnamed: 0 id, Age n, Sex 2, Job k, Housing 3, Credit amount n, Purpose 8, Risk 2", "Risk"),
    "heart": ("age n, sex b, cp k, trestbps n, chol n, fbs b, thal k, target b", "target"),
    "heart of Cleveland": ("age n, sex b, cp k, trestbps n, chol n, ca k, thal k, num k", "num"),
    "heart failure": ("Age n, Sex 2, ChestPainType 4, RestingBP n, ST_Slope 3, HeartDisease b", "HeartDisease"),
    "churn of telephones": ("customerID text, gender 2, SeniorCitizen b, tenure n, Contract 3, MonthlyCharges f, Churn y", "Churn"),
    "churn of a bank": ("RowNumber id, CustomerId id, Surname text, Geography 3, Gender 2, Balance f, Exited b", "Exited"),
    "bank marketing": ("age n, job 12, marital 3, education 4, balance n, month 12, duration n, poutcome 4, y y", "y"),
    "bank deposits": ("age n, job 12, marital 3, month 12, duration n, poutcome 4, deposit y", "deposit"),
    "abalone": ("Sex 3, Length f, Diameter f, Whole weight f, Rings k", "Rings"),
    "forest cover": ("Elevation n, Aspect n, Slope k, Wilderness_Area1 b, Soil_Type1 b, Cover_Type k", "Cover_Type"),
    "penguins": ("species 3, island 3, bill_length_mm f, bill_depth_mm f, body_mass_g n, sex 2, year k", "species"),
    "breast cancer": ("id id, diagnosis 2, radius_mean f, texture_mean f, fractal_dimension_worst f, Unnamed: 32 none", "diagnosis"),
    "breast cancer of 1992": ("Sample code number id, Clump Thickness k, Bland Chromatin k, Mitoses k, Class k", "Class"),
    "pima": ("Pregnancies k, Glucose n, BMI f, DiabetesPedigreeFunction f, Age n, Outcome b", "Outcome"),
    "ionosphere": ("a01 f, a02 f, a03 f, a04 f, Class 2", "Class"),
    "sonar": ("V1 f, V2 f, V3 f, R 2", "R"),
    "glass": ("RI f, Na f, Mg f, Al f, Fe f, Type k", "Type"),
    "zoo": ("animal_name text, hair b, feathers b, legs k, catsize b, class_type k", "class_type"),
    "cars": ("buying 4, maint 4, doors 4, persons 3, lug_boot 3, safety 3, class 4", "class"),
    "letters": ("lettr 26, x-box k, y-box k, width k, high k, yegvx k", "lettr"),
    "spam": ("word_freq_make f, word_freq_all f, capital_run_length_total n, is_spam b", "is_spam"),
    "messages": ("v1 2, v2 text", "v1"),
    "reviews": ("review text, sentiment 2", "sentiment"),
    "card fraud": ("Time n, V1 f, V2 f, Amount f, Class b", "Class"),
    "payments": ("step n, type 5, amount f, nameOrig text, isFraud b, isFlaggedFraud b", "isFraud"),
    "loans": ("Loan_ID text, Gender 2, Married y, Dependents k, LoanAmount f, Property_Area 3, Loan_Status 2", "Loan_Status"),
    "credit cards": ("ID id, LIMIT_BAL n, SEX k, PAY_0 k, BILL_AMT1 n, default.payment.next.month b", "default.payment.next.month"),
    "attrition": ("Age n, Attrition y, BusinessTravel 3, EmployeeNumber id, JobRole 9, YearsWithCurrManager k", "Attrition"),
    "stars": ("obj_ID id, alpha f, delta f, u f, g f, class 3, redshift f, plate n, MJD n", "class"),
    "exoplanets": ("kepid id, kepoi_name text, koi_disposition 3, koi_score f, koi_period f, ra f, dec f", "koi_disposition"),
    "hotels": ("hotel 2, is_canceled b, lead_time n, arrival_date_month 12, meal 4, adr f, reservation_status_date d", "is_canceled"),
    "rain": ("Date d, Location 30, MinTemp f, MaxTemp f, RainToday y, RainTomorrow y", "RainTomorrow"),
    "airline": ("id id, Gender 2, Age n, Type of Travel 2, Class 3, Flight Distance n, satisfaction 2", "satisfaction"),
    "stroke": ("id id, gender 2, age n, hypertension b, work_type 5, bmi f, smoking_status 4, stroke b", "stroke"),
    "diabetes survey": ("Diabetes_binary b, HighBP b, BMI n, Smoker b, Education k, Income k", "Diabetes_binary"),
    "phones": ("battery_power n, blue b, clock_speed f, ram n, wifi b, price_range k", "price_range"),
    "beans": ("Area n, Perimeter f, Eccentricity f, Solidity f, Class 7", "Class"),
    "activities": ("tBodyAcc-mean()-X f, tBodyAcc-mean()-Y f, subject k, Activity 6", "Activity"),
    "votes": ("party 2, handicapped-infants y, water-project y, crime y, duty-free y, Class Name 2", "Class Name"),
    "cells": ("barcode text, n_genes n, percent_mito f, batch 3, cell_type 8, x f, y f", "cell_type"),
    "flows": (" Destination Port n, Flow Duration n, Flow Bytes f, Label 6", "Label"),
    "attacks": ("id id, dur f, proto 3, service 12, sbytes n, attack_cat 9, label b", "label"),
    "trees": ("plot_id k, x f, y f, z f, date d, height f, species 5", "species"),
    "drugs": ("Age n, Sex 2, BP 3, Cholesterol 2, Na_to_K f, Drug 5", "Drug"),
    "fish": ("Species 7, Weight f, Length1 f, Height f, Width f", "Species"),
    "car evaluation uci": ("buying 4, maint 4, doors 4, persons 3, lug_boot 3, safety 3, unacc 4", "unacc"),
    "nursery": ("parents 3, has_nurs 5, form 4, children 4, housing 3, finance 2, social 3, health 3, final evaluation 5", "final evaluation"),
    "bank deposit": ("age n, job 12, marital 3, default y, balance n, housing y, loan y, poutcome 4, deposit y", "deposit"),
    "telco churn": ("customerID text, gender 2, SeniorCitizen b, Partner y, Dependents y, tenure n, InternetService 3, Contract 3, MonthlyCharges f, Churn y", "Churn"),
    "churn modelling": ("RowNumber id, CustomerId id, Surname text, CreditScore n, Geography 3, Gender 2, Age n, Tenure k, Balance f, IsActiveMember b, EstimatedSalary f, Exited b", "Exited"),
    "heart uci": ("id id, age n, sex 2, dataset 4, cp 4, trestbps n, chol n, fbs y, restecg 3, thalch n, num k", "num"),
    "framingham": ("male b, age n, education k, currentSmoker b, cigsPerDay n, BPMeds b, totChol n, BMI f, glucose n, TenYearCHD b", "TenYearCHD"),
    "liver": ("Age n, Gender 2, Total_Bilirubin f, Alkaline_Phosphotase n, Albumin f, Dataset b", "Dataset"),
    "kidney": ("id id, age n, bp n, sg f, al k, su k, rbc 2, pc 2, htn y, dm y, classification 2", "classification"),
    "hepatitis": ("Class b, AGE n, SEX b, STEROID b, ANTIVIRALS b, FATIGUE b, BILIRUBIN f, HISTOLOGY b", "Class"),
    "thyroid": ("age n, sex 2, on_thyroxine 2, sick 2, TSH f, T3 f, TT4 f, binaryClass 2", "binaryClass"),
    "parkinsons": ("name text, MDVP:Fo(Hz) f, MDVP:Jitter(%) f, HNR f, status b, RPDE f, DFA f, spread1 f, PPE f", "status"),
    "vehicle": ("COMPACTNESS n, CIRCULARITY n, SCATTER_RATIO n, HOLLOWS_RATIO n, Class 4", "Class"),
    "ecoli": ("sequence text, mcg f, gvh f, lip f, chg f, aac f, alm1 f, site 8", "site"),
    "yeast": ("mcg f, gvh f, alm f, mit f, erl f, pox f, vac f, nuc f, localization 10", "localization"),
    "segmentation": ("region-centroid-col n, region-centroid-row n, intensity-mean f, hue-mean f, class 7", "class"),
    "magic": ("fLength f, fWidth f, fSize f, fConc f, fAlpha f, fDist f, class 2", "class"),
    "seeds": ("area f, perimeter f, compactness f, kernel_length f, asymmetry f, groove f, type k", "type"),
    "banknote": ("variance f, skewness f, curtosis f, entropy f, class b", "class"),
    "banknote auth": ("variance f, skewness f, curtosis f, entropy f, authentic b", "authentic"),
    "haberman": ("age n, year n, nodes k, status k", "status"),
    "haberman2": ("Age n, Op_Year n, axil_nodes k, Surv_status k", "Surv_status"),
    "tictactoe": ("top-left-square 3, top-middle-square 3, middle-middle-square 3, bottom-right-square 3, Class 2", "Class"),
    "wholesale": ("Channel k, Region k, Fresh n, Milk n, Grocery n, Frozen n", "Channel"),
    "student": ("gender 2, race/ethnicity 5, parental level of education 6, lunch 2, math score n, reading score n, writing score n", "gender"),
    "student dropout": ("Marital status k, Application mode k, Course n, Tuition fees up to date b, Gender b, GDP f, Target 3", "Target"),
    "employee leave": ("satisfaction_level f, last_evaluation f, number_project k, average_montly_hours n, Work_accident b, left b, sales 10, salary 3", "left"),
    "employee future": ("Education 3, JoiningYear k, City 3, PaymentTier k, Age n, Gender 2, EverBenched y, LeaveOrNot b", "LeaveOrNot"),
    "hr promotion": ("employee_id id, department 9, region 30, education 3, gender 2, no_of_trainings k, age n, previous_year_rating k, awards_won? b, avg_training_score n, is_promoted b", "is_promoted"),
    "insurance cross": ("id id, Gender 2, Age n, Driving_License b, Region_Code n, Previously_Insured b, Vehicle_Age 3, Vehicle_Damage y, Annual_Premium f, Response b", "Response"),
    "lending": ("credit.policy b, purpose 7, int.rate f, installment f, fico n, revol.bal n, delinq.2yrs k, not.fully.paid b", "not.fully.paid"),
    "credit risk": ("person_age n, person_income n, person_home_ownership 4, loan_intent 6, loan_grade 7, loan_amnt n, loan_status b, loan_percent_income f, cb_person_default_on_file 2", "loan_status"),
    "loan approval": ("loan_id id, no_of_dependents k, education 2, self_employed y, income_annum n, cibil_score n, loan_status 2", "loan_status"),
    "give me credit": ("Unnamed: 0 id, SeriousDlqin2yrs b, RevolvingUtilization f, age n, DebtRatio f, MonthlyIncome n, NumberOfDependents k", "SeriousDlqin2yrs"),
    "kickstarter": ("ID id, name text, category 40, main_category 15, currency 14, deadline d, goal f, launched d, pledged f, state 6, backers n, country 22", "state"),
    "tweets": ("id id, keyword 40, location 40, text text, target b", "target"),
    "airline tweets": ("tweet_id id, airline_sentiment 3, airline_sentiment_confidence f, negativereason 10, airline 6, name text, text text, tweet_created text", "airline_sentiment"),
    "fake news": ("title text, text text, subject 8, date d, label b", "label"),
    "fetal health": ("baseline value n, accelerations f, fetal_movement f, uterine_contractions f, histogram_mean n, fetal_health k", "fetal_health"),
    "drinking water": ("ph f, Hardness f, Solids f, Chloramines f, Sulfate f, Turbidity f, Potability b", "Potability"),
    "crop": ("N n, P n, K n, temperature f, humidity f, ph f, rainfall f, label 22", "label"),
    "predictive maintenance": ("UDI id, Product ID text, Type 3, Air temperature [K] f, Rotational speed [rpm] n, Torque [Nm] f, Tool wear [min] n, Target b, Failure Type 6", "Target"),
    "secom": ("Time text, 0 f, 1 f, 2 f, 3 f, Pass/Fail b", "Pass/Fail"),
    "obesity": ("Gender 2, Age n, Height f, Weight f, family_history y, FAVC y, CAEC 4, SMOKE y, CALC 4, MTRANS 5, NObeyesdad 7", "NObeyesdad"),
    "lung cancer": ("GENDER 2, AGE n, SMOKING k, YELLOW_FINGERS k, ANXIETY k, COUGHING k, LUNG_CANCER y", "LUNG_CANCER"),
    "genes": ("sample_id text, BRCA1 f, TP53 f, EGFR f, KRAS f, tissue 6", "tissue"),
    "genes first": ("samples text, type 5, 1007_s_at f, 1053_at f, 117_at f", "type"),
    "occupancy": ("date text, Temperature f, Humidity f, Light f, CO2 f, HumidityRatio f, Occupancy b", "Occupancy"),
    "weather": ("precipitation f, temp_max f, temp_min f, wind f, weather 5", "weather"),
    "spaceship": ("PassengerId text, HomePlanet 3, CryoSleep b, Cabin text, Destination 3, Age n, VIP b, Spa f, Name text, Transported b", "Transported"),
    "pulsar": ("Mean of the integrated profile f, Standard deviation f, Excess kurtosis f, Skewness f, target_class b", "target_class"),
    "music genre": ("filename text, length n, chroma_stft_mean f, rms_mean f, tempo f, mfcc1_mean f, label 10", "label"),
    "pokemon": ("# id, Name text, Type 1 18, Type 2 18, HP n, Attack n, Defense n, Generation k, Legendary b", "Legendary"),
    "phishing": ("id id, NumDots k, SubdomainLevel k, UrlLength n, NoHttps b, CLASS_LABEL b", "CLASS_LABEL"),
    "malware": ("Name text, e_magic n, e_cblp n, SizeOfImage n, Malware b", "Malware"),
    "credit approval": ("A1 2, A2 f, A3 f, A4 3, A5 3, A6 14, A7 9, A8 f, A16 2", "A16"),
    "australian": ("x1 b, x2 f, x3 f, x4 k, y b", "y"),
    "diamonds": ("carat f, cut 5, color 7, clarity 8, depth f, table f, price n, x f, y f, z f", "cut"),
    "mpg": ("mpg f, cylinders k, displacement f, horsepower n, weight n, acceleration f, model_year k, origin 3, name text", "origin"),
    "beer": ("Name text, Style 40, ABV f, IBU n, Color f, BrewMethod 4", "BrewMethod"),
    "steel plates": ("X_Minimum n, X_Maximum n, Pixels_Areas n, Luminosity n, Fault 7", "Fault"),
    "landsat": ("A1 n, A2 n, A3 n, A4 n, Class k", "Class"),
    "dry eye": ("Gender 2, Age n, Sleep duration f, Stress level k, Screen time f, Dry Eye Disease y", "Dry Eye Disease"),
    "sleep": ("Person ID id, Gender 2, Age n, Occupation 11, Sleep Duration f, Stress Level k, BMI Category 4, Blood Pressure 25, Sleep Disorder 3", "Sleep Disorder"),
    "shipping": ("ID id, Warehouse_block 5, Mode_of_Shipment 3, Customer_care_calls k, Cost n, Gender 2, Discount_offered n, Reached.on.Time_Y.N b", "Reached.on.Time_Y.N"),
    "nba": ("Name text, GP n, MIN f, PTS f, FGM f, FG% f, TARGET_5Yrs b", "TARGET_5Yrs"),
    "smoke": ("UTC n, Temperature[C] f, Humidity[%] f, TVOC n, Pressure f, Fire Alarm b", "Fire Alarm"),
    "rice": ("Area n, Perimeter f, Major_Axis f, Extent f, Class 2", "Class"),
    "raisin": ("Area n, MajorAxisLength f, Eccentricity f, ConvexArea n, Class 2", "Class"),
    "online shoppers": ("Administrative k, Informational k, BounceRates f, PageValues f, Month 10, Browser k, VisitorType 3, Weekend b, Revenue b", "Revenue"),
    "turnover": ("stag f, event b, gender 2, age f, industry 15, profession 15, traffic 8, coach 3", "event"),
    "travel": ("CustomerID id, ProdTaken b, Age n, TypeofContact 2, CityTier k, Gender 2, Passport b, Designation 5, MonthlyIncome n", "ProdTaken"),
    "segmentation customers": ("ID id, Gender 2, Ever_Married y, Age n, Profession 9, Spending_Score 3, Var_1 7, Segmentation 4", "Segmentation"),
    "chess": ("white_king_col 8, white_king_row k, white_rook_col 8, result 18", "result"),
    "balance scale": ("Class 3, Left-Weight k, Left-Distance k, Right-Weight k, Right-Distance k", "Class"),
    "contraceptive": ("Wife_age n, Wife_education k, Husband_education k, Number_of_children k, Media_exposure b, Contraceptive_method k", "Contraceptive_method"),
    "sirtuin": ("SC-5 f, SP-6 f, VP-2 f, Class 2", "Class"),
    "cirrhosis": ("ID id, N_Days n, Status 3, Drug 2, Age n, Sex 2, Bilirubin f, Stage k", "Stage"),
    "maternal": ("Age n, SystolicBP n, DiastolicBP n, BS f, BodyTemp f, HeartRate n, RiskLevel 3", "RiskLevel"),
}  # fmt: skip


def made_up(header, n_rows=240):
    """Return a table with the columns of a header such as "age n, sex 2".

    Kinds: id of rows, f decimals, d dates, k small and n large whole numbers, b 0 or 1, y yes or no, text that differs
    in all rows, none; or the number of different words.
    """
    rng = np.random.default_rng(len(header))
    columns = {}
    for cell in header.split(", "):
        name, _, kind = cell.rpartition(" ")
        if kind.isdecimal():
            columns[name] = np.array([f"{name[:2]}{chr(97 + i)}" for i in range(int(kind))])[
                rng.integers(0, int(kind), n_rows)
            ]
        else:
            columns[name] = {
                "id": lambda: rng.permutation(n_rows) + 1000,
                "f": lambda: rng.normal(10, 3, n_rows).round(3),
                "d": lambda: pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 40, n_rows), "D"),
                "k": lambda: rng.integers(1, 8, n_rows),
                "n": lambda: rng.integers(20, 20_000, n_rows),
                "b": lambda: rng.integers(0, 2, n_rows),
                "y": lambda: rng.choice(["yes", "no"], n_rows),
                "text": lambda: [f"text {i}" for i in rng.permutation(n_rows)],
                "none": lambda: np.full(n_rows, np.nan),
            }[kind]()
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def guesses(tmp_path_factory):
    folder, guesses = tmp_path_factory.mktemp("headers"), {}
    for number, (name, (header, _)) in enumerate(TABLES.items()):
        path = folder / f"{number}.{'csv' if number % 2 else 'parquet'}"
        table = made_up(header)
        table.to_csv(path, index=False) if number % 2 else table.to_parquet(path, index=False)
        guesses[name] = check(str(path))
    return guesses


def test_the_usual_labels_are_found(guesses):
    wrong = {name: guesses[name].label for name, (_, label) in TABLES.items() if guesses[name].label != label}
    assert len(wrong) <= (1 - SHARE) * len(TABLES), wrong


def test_the_line_names_two_other_candidates(guesses):
    (line,) = (line for line in guesses["penguins"].lines() if line.startswith("Label: "))
    assert line.startswith("Label: species (by its name: name another with --label, such as ")
    assert line.count("'") == 4 and "'island'" in line


@pytest.mark.parametrize(
    "named", ["date", "visit_year", "Month", "patient_id", "RespondentID", "latitude", "lon", "zip code"]
)
def test_dates_identifiers_and_places_are_no_guess_by_name(tmp_path, named):
    table = made_up("a f, b f, kind 3").assign(**{named: np.arange(240) % 12})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert check(str(tmp_path / "t.csv")).label == "kind"


@pytest.mark.parametrize("values", [
    [2010 + i % 9 for i in range(240)], [f"{1 + i % 9} Mar 2024" for i in range(240)], [20240301 + i % 9 for i in range(240)],
    [f"0{i % 9}:15" for i in range(240)],
])  # fmt: skip
def test_years_dates_and_times_are_no_guess_by_value(tmp_path, values):
    made_up("a f, b f, kind 3").assign(vintage=values).to_parquet(tmp_path / "t.parquet")
    assert check(str(tmp_path / "t.parquet")).label == "kind"


@pytest.mark.parametrize(
    ("columns", "label"),
    [
        ({"label": [f"image {i}" for i in range(240)]}, "kind"),
        ({"label": np.arange(240)}, "kind"),
        ({"x": np.arange(240) / 7, "y": np.arange(240) / 3, "z": np.arange(240) / 9}, "kind"),
        ({"x": np.arange(240) / 7, "y": np.arange(240) % 9, "z": np.arange(240) / 9}, "kind"),
        ({"y": np.arange(240) / 3}, "y"),
        ({"x": np.arange(240) / 3, "y": np.arange(240) % 2}, "y"),
        ({"label": np.arange(240) % 2}, "label"),
    ],
)
def test_a_name_alone_makes_no_label(tmp_path, columns, label):
    pd.DataFrame({**columns, "kind": np.array(["p", "q", "r"])[np.arange(240) % 3]}).to_parquet(tmp_path / "t.parquet")
    assert check(str(tmp_path / "t.parquet")).label == label


@pytest.mark.parametrize(("columns", "label"), [
    ({"cell_type": 5, "batch": 3, "n_genes": 0}, "cell_type"),
    ({"donor": 6, "leiden": 9}, "leiden"),
    ({"barcode": 0, "CellType": 4, "sex": 2}, "CellType"),
    ({"patient_id": 8, "diagnosis": 2, "age": 0}, "diagnosis"),
    ({"sample": 0, "condition": 2}, "condition"),
    ({"louvain": 7}, "louvain"),
])  # fmt: skip
def test_the_label_of_cells_is_guessed_among_obs(tmp_path, columns, label):
    rng = np.random.default_rng(0)
    obs = pd.DataFrame({
        name: pd.Categorical([f"{name}{i}" for i in rng.integers(0, n, 90)]) if n else np.arange(90.0) + 0.5
        for name, n in columns.items()
    }, index=[str(i) for i in range(90)])  # fmt: skip
    anndata = pytest.importorskip("anndata")
    anndata.AnnData(rng.normal(size=(90, 4)).astype(np.float32), obs).write_h5ad(tmp_path / "cells.h5ad")
    checked = check(str(tmp_path / "cells.h5ad"))
    assert (checked.label, checked.refused) == (label, [])
    assert checked.classes == obs[label].value_counts().to_dict()
    assert f"label: {label}" in suggested_yaml(checked)
